"""A driver that stands still and notes when each trajectory arrived: the far end of bench_gateway."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import suppress

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import ArmSettings
from opc_ros.config import load_config
from opc_ros.ros.joint_messages import reading_to_msg
from tests.ros.twin_rig import ROBOT, ROOT


def name_of(msg: JointTrajectory) -> str:
    """A trajectory's name: how far its first joint goes, in hundred-thousandths of a radian."""
    return str(round(msg.points[-1].positions[0] * 1e5))


def main() -> None:
    settings = load_config(ROOT / "config" / "arm_twin.yaml", ArmSettings)
    rclpy.init()
    node = Node("sink", namespace=ROBOT)
    came_ns: dict[str, int] = {}
    joints = node.create_publisher(JointState, settings.joint_states, 10)
    fingers = node.create_publisher(JointState, settings.gripper.state, 10)

    def note(msg: JointTrajectory) -> None:
        came_ns.setdefault(name_of(msg), time.monotonic_ns())

    def tell() -> None:
        now_ns = time.time_ns()
        count = len(settings.joint_names)
        joints.publish(reading_to_msg(settings.joint_names, [0.0] * count, [0.0] * count, now_ns))
        fingers.publish(reading_to_msg([settings.gripper.joint], [0.08], [], now_ns))

    node.create_subscription(JointTrajectory, f"{settings.controller}/joint_trajectory", note, 10)
    node.create_subscription(Float64, settings.gripper.command, lambda _: None, 10)
    node.create_timer(0.01, tell)
    signal.signal(signal.SIGTERM, lambda *_: rclpy.try_shutdown())
    with suppress(ExternalShutdownException):
        rclpy.spin(node)
    json.dump(came_ns, sys.stdout)


if __name__ == "__main__":
    main()
