from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")

from sensor_msgs.msg import JointState

from opc_ros.arms.trajectory import Trajectory
from opc_ros.errors import ArmError, OutOfReach
from opc_ros.ros.joint_messages import reading_from_msg, reading_to_msg, trajectory_from_msg, trajectory_to_msg

pytestmark = pytest.mark.ros
NAMES = ("A1", "A2", "A3", "A4", "A5", "A6", "A7")


def test_a_trajectory_survives_the_message_in_any_order_of_joints():
    rng = np.random.default_rng(0)
    trajectory = Trajectory(np.array([0.5, 1.25]), rng.normal(size=(2, 7)), rng.normal(size=(2, 7)))
    msg = trajectory_to_msg(trajectory, NAMES)
    assert (msg.points[1].time_from_start.sec, msg.points[1].time_from_start.nanosec) == (1, 250_000_000)
    msg.joint_names = msg.joint_names[::-1]
    for point in msg.points:
        point.positions = point.positions[::-1]
        point.velocities = point.velocities[::-1]
    back = trajectory_from_msg(msg, NAMES)
    assert back.times_s == pytest.approx(trajectory.times_s)
    assert back.positions_rad == pytest.approx(trajectory.positions_rad)
    assert back.velocities_rad_s == pytest.approx(trajectory.velocities_rad_s)


def test_points_of_the_wrong_length_are_refused():
    msg = trajectory_to_msg(Trajectory(np.array([1.0]), np.zeros((1, 7)), np.zeros((1, 7))), NAMES)
    msg.points[0].positions = [0.0] * 6
    with pytest.raises(OutOfReach, match="trajectory point 0 has 6 positions and 7 velocities, expected 7"):
        trajectory_from_msg(msg, NAMES)
    msg.points = []
    with pytest.raises(OutOfReach, match="at least one point"):
        trajectory_from_msg(msg, NAMES)


def test_joint_states_are_read_by_name_among_others():
    msg = reading_to_msg(["finger", *reversed(NAMES)], range(8), range(0, 80, 10), stamp_ns=5_000_000_001)
    reading = reading_from_msg(msg, NAMES)
    assert reading is not None
    assert reading.stamp_ns == 5_000_000_001
    assert reading.positions_rad.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert reading.velocities_rad_s is not None
    assert reading.velocities_rad_s.tolist() == [70, 60, 50, 40, 30, 20, 10]


def test_joint_states_of_another_device_are_passed_over_and_half_an_arm_is_an_error():
    assert reading_from_msg(JointState(name=["finger"], position=[0.1]), NAMES) is None
    with pytest.raises(ArmError, match="but not A2, A3, A4, A5, A6, A7: check joint_names"):
        reading_from_msg(JointState(name=["A1"], position=[0.1]), NAMES)
    with pytest.raises(ArmError, match="expected finite"):
        reading_from_msg(JointState(name=list(NAMES), position=[float("nan")] * 7), NAMES)
    without_speed = reading_from_msg(JointState(name=list(NAMES), position=[0.0] * 7), NAMES)
    assert without_speed is not None
    assert without_speed.velocities_rad_s is None
