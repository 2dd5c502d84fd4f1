"""Arms: their protocol, settings, kinematics, trajectories, limits and guard."""
