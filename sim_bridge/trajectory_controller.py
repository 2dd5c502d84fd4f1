"""Follows joint trajectories like an arm's own controller: interpolated, never beyond its limits."""

from __future__ import annotations

import numpy as np

from opc_ros.arms.limits import JointLimits
from opc_ros.arms.trajectory import Trajectory
from opc_ros.errors import OutOfReach


class TrajectoryController:
    """One trajectory at a time; a new one takes over from the current setpoint."""

    def __init__(self, limits: JointLimits, joints_rad: np.ndarray) -> None:
        self._limits = limits
        self._setpoint_rad = np.array(joints_rad, dtype=float)  # (J,)
        self._trajectory: Trajectory | None = None
        self._elapsed_s = 0.0
        self._clamped: list[str] = []

    @property
    def setpoint_rad(self) -> np.ndarray:  # (J,)
        return self._setpoint_rad

    @property
    def is_moving(self) -> bool:
        return self._trajectory is not None

    def follow(self, trajectory: Trajectory) -> None:
        """Follow a trajectory from now on; it is refused as a whole if any point is beyond a joint's limit."""
        for index, positions in enumerate(trajectory.positions_rad):
            for line in self._limits.position_violations(positions):
                raise OutOfReach(f"trajectory point {index}: {line}")
        self._trajectory = self._lead_in(trajectory)
        self._elapsed_s = 0.0

    def advance(self, seconds: float) -> np.ndarray:
        """The setpoint of the joints (J,), this much later."""
        if self._trajectory is not None:
            self._elapsed_s += seconds
            wanted = self._trajectory.sample(self._elapsed_s)
            self._setpoint_rad, line = self._limits.clamp_step(self._setpoint_rad, wanted, seconds)
            if line and not self._clamped:
                self._clamped.append(line)
            if not line and self._elapsed_s >= self._trajectory.duration_s:
                self._trajectory = None
        return self._setpoint_rad

    def hold(self) -> bool:
        """Drop the trajectory and hold; return whether there was one."""
        was_moving, self._trajectory = self.is_moving, None
        return was_moving

    def put(self, joints_rad: np.ndarray) -> None:
        """Start over from the joint angles that the arm was put at."""
        self.hold()
        self._setpoint_rad = np.array(joints_rad, dtype=float)

    def take_clamped(self) -> tuple[str, ...]:
        """One line about what had to be slowed down since the last call, if anything."""
        lines, self._clamped = tuple(self._clamped), []
        return lines

    def _lead_in(self, trajectory: Trajectory) -> Trajectory:
        """If the first point lies after the start, it is approached from the current setpoint."""
        if trajectory.times_s[0] <= 0.0:
            return trajectory
        return Trajectory(
            times_s=np.concatenate([[0.0], trajectory.times_s]),
            positions_rad=np.vstack([self._setpoint_rad, trajectory.positions_rad]),
            velocities_rad_s=np.vstack([np.zeros_like(self._setpoint_rad), trajectory.velocities_rad_s]),
        )
