"""Robot arms: protocol, settings, kinematics, trajectories, limits and guard."""
