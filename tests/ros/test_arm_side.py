"""What the gateway lets through to the driver, without a driver: with numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")

from opc_ros.arms.trajectory import Trajectory, plan_joints
from opc_ros.deployment.arm_lease import ArmLease
from opc_ros.errors import OutOfReach
from opc_ros.ros.arm_side import NEAR_RAD, StartSlack, allowed_rad_s, asks_to_stay, refuse_beyond
from tests.ros.twin_rig import SETTINGS

LIMITS = SETTINGS.joint_limits()
SLOW = ArmLease("permit p1", 2**62, 0.1)
HERE = np.zeros(7)
ONE = np.eye(7)[0]


def line(*points: tuple[float, float]) -> Trajectory:
    """The first joint at rest at these times and angles."""
    times, angles = zip(*points, strict=True)
    return Trajectory(np.array(times), np.outer(angles, ONE), np.zeros((len(points), 7)))


def test_what_our_own_planner_makes_within_the_leases_speed_passes() -> None:
    limits = SETTINGS.joint_limits()
    limits.velocity_rad_s = limits.velocity_rad_s * SLOW.speed
    refuse_beyond(plan_joints(limits, HERE, 0.5 * ONE), HERE, LIMITS, SLOW)


def test_from_rest_to_rest_the_middle_counts_which_is_half_as_fast_again() -> None:
    speed_rad_s = allowed_rad_s(LIMITS, SLOW)[0]
    refuse_beyond(line((0.0, 0.0), (1.51 * 0.2 / speed_rad_s, 0.2)), HERE, LIMITS, SLOW)
    with pytest.raises(OutOfReach, match="joint 1 would turn at"):
        refuse_beyond(line((0.0, 0.0), (1.49 * 0.2 / speed_rad_s, 0.2)), HERE, LIMITS, SLOW)


@pytest.mark.parametrize("seconds", [1e-3, 0.02])
def test_a_single_point_nearby_counts_from_where_the_arm_is(seconds: float) -> None:
    with pytest.raises(OutOfReach, match="joint 1 would turn at"):
        refuse_beyond(line((seconds, 0.09)), HERE, LIMITS, SLOW)


def test_a_single_point_at_rest_nearby_or_a_trajectory_without_motion_is_a_hold() -> None:
    assert asks_to_stay(line((0.02, 0.09)), HERE)
    assert not asks_to_stay(line((0.02, 0.11)), HERE)
    assert asks_to_stay(line((0.0, 0.0), (1.0, 0.019)), HERE)
    assert not asks_to_stay(line((0.0, 0.0), (1.0, 0.03)), HERE)
    rushing = Trajectory(np.array([0.02]), 0.09 * ONE[np.newaxis], 50.0 * ONE[np.newaxis])
    assert not asks_to_stay(rushing, HERE)


def test_a_start_elsewhere_is_refused() -> None:
    with pytest.raises(OutOfReach, match="does not start where the arm is"):
        refuse_beyond(line((0.0, 0.11), (60.0, 0.12)), HERE, LIMITS, SLOW)


def test_near_starts_one_after_the_other_add_up_and_are_forgiven_at_the_leases_speed() -> None:
    slack, speed = StartSlack(7), np.full(7, 0.01)
    slack.spend(0.06 * ONE, speed, 100.0)
    with pytest.raises(OutOfReach, match="repeated trajectories"):
        slack.spend(0.06 * ONE, speed, 100.1)
    # 0.06 + 0.06 - 0.1 = 0.02 rad too much, which 0.01 rad/s make up for in two seconds.
    slack.spend(0.06 * ONE, speed, 102.01)
    assert pytest.approx(0.1) == NEAR_RAD
