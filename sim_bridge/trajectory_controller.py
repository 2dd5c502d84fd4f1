"""Follow joint trajectories the way an arm's own controller does: interpolated, never beyond its limits."""

from __future__ import annotations

import numpy as np

from opc_ros.arms.limits import JointLimits
from opc_ros.arms.trajectory import Trajectory
from opc_ros.errors import OutOfReach


class TrajectoryController:
    """One trajectory at a time; a new one takes over from where the arm is being led."""

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
        """Take over a trajectory; one with a point beyond a joint's limit is refused whole."""
        for index, positions in enumerate(trajectory.positions_rad):
            for line in self._limits.position_violations(positions):
                raise OutOfReach(f"trajectory point {index}: {line}")
        self._trajectory = self._lead_in(trajectory)
        self._elapsed_s = 0.0

    def advance(self, seconds: float) -> np.ndarray:
        """Where the joints (J,) should be, this much later."""
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
        """Drop the trajectory and hold; returns whether there was one."""
        was_moving, self._trajectory = self.is_moving, None
        return was_moving

    def put(self, joints_rad: np.ndarray) -> None:
        """Start over from joint angles the arm was put to."""
        self.hold()
        self._setpoint_rad = np.array(joints_rad, dtype=float)

    def take_clamped(self) -> tuple[str, ...]:
        """What had to be slowed down since the last call."""
        lines, self._clamped = tuple(self._clamped), []
        return lines

    def _lead_in(self, trajectory: Trajectory) -> Trajectory:
        """A first point after the start is reached from where the arm is being led now."""
        if trajectory.times_s[0] <= 0.0:
            return trajectory
        return Trajectory(
            times_s=np.concatenate([[0.0], trajectory.times_s]),
            positions_rad=np.vstack([self._setpoint_rad, trajectory.positions_rad]),
            velocities_rad_s=np.vstack([np.zeros_like(self._setpoint_rad), trajectory.velocities_rad_s]),
        )
