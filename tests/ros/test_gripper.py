from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy")

import rclpy
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import GripperSettings
from opc_ros.errors import SetupError
from opc_ros.ros.gripper import make_gripper

pytestmark = pytest.mark.ros


@pytest.fixture
def node(ros_domain: int) -> Iterator[Any]:
    rclpy.init(args=[], domain_id=ros_domain)
    node = rclpy.create_node("tester")
    yield node
    node.destroy_node()
    rclpy.shutdown()


def hear(node: Any, kind: type, settings: GripperSettings, aperture_m: float) -> Any:
    heard: list[Any] = []
    gripper = make_gripper(node, settings)
    assert not gripper.is_connected
    node.create_subscription(kind, settings.command, heard.append, 10)
    deadline_s = time.monotonic() + 20
    while not gripper.is_connected:
        assert time.monotonic() < deadline_s
        rclpy.spin_once(node, timeout_sec=0.05)
    gripper.command(aperture_m)
    while not heard:
        assert time.monotonic() < deadline_s
        rclpy.spin_once(node, timeout_sec=0.05)
    return heard[0]


def test_a_float_is_the_position_of_the_joint(node: Any):
    # One finger travels half the opening.
    msg = hear(node, Float64, GripperSettings(driver="float64", metres_per_unit=2.0), 0.06)
    assert msg.data == pytest.approx(0.03)


def test_a_trajectory_names_the_joint(node: Any):
    msg = hear(node, JointTrajectory, GripperSettings(driver="trajectory", joint="finger"), 0.06)
    assert msg.joint_names == ["finger"]
    assert list(msg.points[0].positions) == pytest.approx([0.06])
    assert msg.points[0].time_from_start.nanosec == 500_000_000


def test_a_gripper_command_without_control_msgs_says_what_to_install(node: Any):
    try:
        import control_msgs.action  # noqa: F401
    except ImportError:
        with pytest.raises(SetupError, match="apt-get install ros-jazzy-control-msgs"):
            make_gripper(node, GripperSettings(driver="gripper_command"))
    else:
        assert not make_gripper(node, GripperSettings(driver="gripper_command")).is_connected
