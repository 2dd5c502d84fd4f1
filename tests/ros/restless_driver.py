"""A driver without physics that goes at once where it is sent, and need not come to rest."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np
from sensor_msgs.msg import CompressedImage, JointState
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectory

from opc_ros.episode import Frame
from opc_ros.ros import convert, topics
from opc_ros.ros.joint_messages import reading_to_msg
from tests.ros.spun_node import SpunNode
from tests.ros.twin_rig import SETTINGS

NAMES = SETTINGS.joint_names
LEANING = dataclasses.replace(SETTINGS, lay_out="", motion=dataclasses.replace(SETTINGS.motion, patience=100.0))


class RestlessDriver:
    """Goes at once where it is sent, plus or minus what `unrest` gives for a time in seconds."""

    def __init__(self, namespace: str = "") -> None:
        self.unrest: Callable[[float], float] = lambda seconds: 0.0  # radians of joint 6
        self.sent: list[np.ndarray] = []
        self._goal = np.array(LEANING.kinematics().solve(LEANING.start.to_pose()))
        self._frame = Frame.from_image(np.zeros((16, 16, 3), np.uint8), 1)
        self._spun = SpunNode("driver", namespace or LEANING.robot)
        node = self._spun.node
        self._joints = node.create_publisher(JointState, "joint_states", 10)
        self._fingers = node.create_publisher(JointState, "gripper/joint_states", 10)
        self._images = node.create_publisher(CompressedImage, "camera/image/compressed", topics.images())
        node.create_subscription(JointTrajectory, f"{LEANING.controller}/joint_trajectory", self._follow, 10)
        node.create_subscription(Float64, "gripper/command", lambda msg: None, 10)
        node.create_timer(0.01, self._measure)
        node.create_timer(0.1, self._image)
        self._spun.start()

    def close(self) -> None:
        self._spun.close()

    def wait_for_commands(self, count: int) -> None:
        deadline = time.monotonic() + 40.0
        while len(self.sent) < count:
            assert time.monotonic() < deadline, f"{len(self.sent)} commands came, not {count}"
            time.sleep(0.02)

    def _now_ns(self) -> int:
        return int(self._spun.node.get_clock().now().nanoseconds)

    def _follow(self, msg: JointTrajectory) -> None:
        self._goal = np.array(msg.points[-1].positions)
        self.sent.append(self._goal)

    def _measure(self) -> None:
        joints = self._goal.copy()
        joints[5] += self.unrest(time.monotonic())
        self._joints.publish(reading_to_msg(NAMES, joints.tolist(), [], self._now_ns()))
        self._fingers.publish(reading_to_msg([LEANING.gripper.joint], [LEANING.gripper.open_m], [], self._now_ns()))

    def _image(self) -> None:
        self._frame = Frame.from_image(np.full((16, 16, 3), time.monotonic_ns() >> 24 & 255, np.uint8), 1)
        self._images.publish(convert.frame_to_msg(dataclasses.replace(self._frame, stamp_ns=self._now_ns())))
