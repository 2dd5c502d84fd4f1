"""Where an arm is held: a hold must never be a motion."""

from __future__ import annotations

import numpy as np
import pytest

from opc_ros.arms.hold import Hold
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory, plan_hold

HOME = np.zeros(7)
SPEED = np.full(7, 0.3)
STILL = np.zeros(7)


class Bench:
    """A clock that the test moves, and an arm that is commanded to turn all joints at 0.3 rad/s for a second."""

    def __init__(self) -> None:
        self.seconds = 100.0
        settings = ArmSettings(measurement_timeout_s=0.25)
        self.hold = Hold(JointLimits(settings.load_model()), settings, lambda: self.seconds)
        points = np.stack([HOME, HOME + 0.3])
        self.motion = Trajectory(np.array([0.0, 1.0]), points, np.stack([SPEED, SPEED]))

    def turn(self, seconds: float) -> None:
        """The arm is told to turn, and so much of it passes."""
        self.hold.note(self.motion)
        self.seconds += seconds

    def goal(self, positions: np.ndarray, velocities: np.ndarray | None, ago_s: float) -> np.ndarray | None:
        planned = self.hold.plan(positions, velocities, self.seconds - ago_s)
        return None if planned is None else planned.goal_rad


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_moving_arm_is_held_where_it_has_got_to_since_it_was_measured(bench: Bench) -> None:
    # 0.05 s at 0.3 rad/s are 0.015 rad.
    np.testing.assert_allclose(bench.goal(HOME, SPEED, 0.05), np.full(7, 0.015))


def test_an_arm_that_follows_its_motion_is_held_where_that_has_taken_it(bench: Bench) -> None:
    bench.turn(1.02)
    # Seen 0.06 s ago, 0.01 rad behind the 0.288 rad that its motion had reached; the motion ended 0.02 s ago at 0.3
    # rad.
    np.testing.assert_allclose(bench.goal(HOME + 0.278, SPEED, 0.06), np.full(7, 0.29))


def test_an_arm_that_stands_still_although_its_motion_continues_is_held_where_it_is(bench: Bench) -> None:
    bench.turn(0.5)
    np.testing.assert_array_equal(bench.goal(HOME + 0.12, STILL, 0.09), HOME + 0.12)


@pytest.mark.parametrize("velocities", [None, np.full(7, np.nan), np.full(7, np.inf), np.full(7, -30.0)])
def test_without_velocities_that_joints_can_have_it_stays_where_it_was_measured(
    bench: Bench, velocities: np.ndarray | None
) -> None:
    np.testing.assert_array_equal(bench.goal(HOME, velocities, 0.05), HOME)


def test_an_arm_that_was_not_seen_for_long_is_sent_nothing(bench: Bench) -> None:
    assert bench.goal(HOME, SPEED, 0.11) is None


def test_an_unseen_arm_that_followed_its_motion_is_held_where_that_has_got_to(bench: Bench) -> None:
    bench.turn(0.5)
    # Seen 0.3 s ago at 0.06 rad, where its motion was then; the motion is at 0.15 rad by now.
    np.testing.assert_allclose(bench.goal(HOME + 0.06, SPEED, 0.3), np.full(7, 0.15))


def test_an_unseen_arm_that_somebody_else_may_have_held_is_sent_nothing(bench: Bench) -> None:
    bench.turn(0.5)
    bench.hold.forget()
    assert bench.goal(HOME + 0.06, SPEED, 0.3) is None


def test_an_unseen_arm_that_did_not_follow_is_sent_nothing(bench: Bench) -> None:
    bench.turn(0.5)
    assert bench.goal(HOME + 0.12, STILL, 0.3) is None


def test_an_arm_that_rests_where_it_was_sent_is_left_alone(bench: Bench) -> None:
    bench.turn(1.2)
    assert bench.goal(HOME + 0.301, STILL, 0.01) is None
    # An arm that was blocked by something is no longer pressed against it.
    np.testing.assert_array_equal(bench.goal(HOME + 0.29, STILL, 0.01), HOME + 0.29)


def test_an_arm_that_is_about_to_move_is_held(bench: Bench) -> None:
    bench.hold.note(bench.motion)
    np.testing.assert_array_equal(bench.goal(HOME, STILL, 0.0), HOME)


def test_a_braking_arm_is_not_held_again_elsewhere(bench: Bench) -> None:
    bench.hold.note(bench.motion)
    bench.hold.note(plan_hold(HOME))
    bench.seconds += 0.02
    assert bench.goal(HOME + 0.01, SPEED, 0.03) is None
    # An arm that still moves after 0.12 s does not obey.
    bench.seconds += 0.1
    np.testing.assert_array_equal(bench.goal(HOME + 0.03, STILL, 0.0), HOME + 0.03)


def test_what_is_held_is_within_the_limits(bench: Bench) -> None:
    limits = JointLimits(ArmSettings().load_model())
    np.testing.assert_array_equal(bench.goal(limits.upper_rad + 0.01, None, 0.0), limits.upper_rad)
