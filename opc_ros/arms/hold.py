"""Finds where to hold an arm so that the hold itself causes no motion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opc_ros.arms.limits import JointLimits
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory, plan_hold

LONGEST_RECKONED_S = 0.1
FRESH_SHARE = 0.4  # of measurement_timeout_s; measurements younger than this say where the arm is
FOLLOWING_RAD = 0.05  # an arm this close to its commanded trajectory is following it
FOLLOWING_RAD_S = 0.08  # largest speed difference to the trajectory, unless half its fastest joint speed is more
SLOPE_S = 0.005
BRAKING_S = 0.1  # a measurement taken this soon after a hold shows an arm that is still braking for it


def reckon(
    positions_rad: np.ndarray, velocities_rad_s: np.ndarray | None, age_s: float, limits: JointLimits
) -> np.ndarray:
    """Extrapolate joints (J,) that were measured a moment ago to now.

    Without velocities, or with impossible ones, they are taken to be where they were: a stray number must not become
    a motion.
    """
    if velocities_rad_s is None or not (np.abs(velocities_rad_s) <= limits.velocity_rad_s).all():
        return positions_rad
    return np.asarray(positions_rad + velocities_rad_s * min(max(age_s, 0.0), LONGEST_RECKONED_S))


class Hold:
    """Works out where to hold an arm, from its last command and its measurements.

    An arm measured a moment ago is held where it is. One not measured recently is held where its commanded motion has
    got to, provided it was following that motion when last measured. An arm at rest where it was sent is left alone,
    and if nothing is known, nothing is sent.
    """

    def __init__(self, limits: JointLimits, settings: ArmSettings, now: Callable[[], float]) -> None:
        """`limits` are the joints' own, without the margin for motions, so that an arm inside that margin stays put."""
        self._limits = limits
        self._arrival_rad = settings.motion.arrival_rad
        self._fresh_s = FRESH_SHARE * settings.measurement_timeout_s
        self._now = now
        self._told: tuple[float, Trajectory] | None = None

    def note(self, trajectory: Trajectory) -> None:
        """This trajectory was sent to the arm just now."""
        self._told = (self._now(), trajectory)

    def forget(self) -> None:
        """Somebody else may have commanded the arm since."""
        self._told = None

    def is_fresh(self, measured_s: float) -> bool:
        """Whether a measurement taken at this time (monotonic) still says where the arm is."""
        return self._now() - measured_s <= self._fresh_s

    def plan(
        self, positions_rad: np.ndarray, velocities_rad_s: np.ndarray | None, measured_s: float
    ) -> Trajectory | None:
        """The hold to send, given joints measured at this time (monotonic); None: send nothing."""
        here_rad = (
            self._reckon_seen(positions_rad, velocities_rad_s, measured_s)
            if self.is_fresh(measured_s)
            else self._reckon_unseen(positions_rad, measured_s)
        )
        if here_rad is None or self._is_braking(measured_s) or self._is_held(here_rad):
            return None
        return plan_hold(np.clip(here_rad, self._limits.lower_rad, self._limits.upper_rad))

    def _reckon_seen(
        self, positions_rad: np.ndarray, velocities_rad_s: np.ndarray | None, measured_s: float
    ) -> np.ndarray:
        """Extrapolate along the trajectory it follows, which knows where it slows down, or else by its speed."""
        age_s = min(max(self._now() - measured_s, 0.0), LONGEST_RECKONED_S)
        if self._told is not None and velocities_rad_s is not None:
            told_s, trajectory = self._told
            then_s = measured_s - told_s
            then_rad = trajectory.sample(then_s)
            slope = (trajectory.sample(then_s + SLOPE_S) - trajectory.sample(then_s - SLOPE_S)) / (2 * SLOPE_S)
            is_near = np.abs(positions_rad - then_rad).max() < FOLLOWING_RAD
            off_rad_s = max(FOLLOWING_RAD_S, np.abs(slope).max() / 2)
            if is_near and (np.abs(velocities_rad_s - slope) < off_rad_s).all():
                return np.asarray(positions_rad + trajectory.sample(then_s + age_s) - then_rad)
        return reckon(positions_rad, velocities_rad_s, age_s, self._limits)

    def _reckon_unseen(self, positions_rad: np.ndarray, measured_s: float) -> np.ndarray | None:
        if self._told is None:
            return None
        told_s, trajectory = self._told
        has_followed = np.abs(positions_rad - trajectory.sample(measured_s - told_s)).max() < FOLLOWING_RAD
        return trajectory.sample(self._now() - told_s) if has_followed else None

    def _is_braking(self, measured_s: float) -> bool:
        """Whether it is still braking for an earlier hold: a second one would only drag it further."""
        return self._told is not None and len(self._told[1].times_s) == 1 and measured_s - self._told[0] < BRAKING_S

    def _is_held(self, here_rad: np.ndarray) -> bool:
        """Whether its last trajectory is over and it is at the end of it."""
        if self._told is None:
            return False
        told_s, trajectory = self._told
        is_over = self._now() - told_s >= trajectory.duration_s
        return is_over and bool(np.abs(here_rad - trajectory.goal_rad).max() < self._arrival_rad)
