"""What viewers need of a twin: robot_description, frames named after the robot, and a calibrated camera."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import CameraInfo, CompressedImage, JointState
from std_msgs.msg import String

from opc_ros.arms.settings import ArmSettings
from opc_ros.ros import topics
from tests.domains import own_domain
from tests.ros.twin_rig import PATIENCE_S, ROBOT, TwinProcess

tf2_msgs = pytest.importorskip("tf2_msgs.msg")
pytestmark = pytest.mark.ros


def listen(
    kinds: dict[str, tuple[Any, Any]], is_enough: Callable[[dict[str, list[Any]]], bool]
) -> dict[str, list[Any]]:
    heard: dict[str, list[Any]] = {topic: [] for topic in kinds}
    context = Context()
    rclpy.init(args=[], context=context)
    node = Node("viewer", namespace=ROBOT, context=context, use_global_arguments=False)
    for topic, (kind, qos) in kinds.items():
        node.create_subscription(kind, topic, heard[topic].append, qos)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_enough(heard):
        assert time.monotonic() < deadline_s, {topic: len(msgs) for topic, msgs in heard.items()}
        executor.spin_once(timeout_sec=0.1)
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown(context=context)
    return heard


def test_a_late_viewer_sees_arm_links_and_camera_under_the_robots_name() -> None:
    late = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    kinds = {
        "robot_description": (String, topics.LATEST),
        "/tf": (tf2_msgs.TFMessage, 100),
        "/tf_static": (tf2_msgs.TFMessage, late),
        "joint_states": (JointState, 10),
        "camera/image/compressed": (CompressedImage, topics.images()),
        "camera/camera_info": (CameraInfo, topics.images()),
    }
    with own_domain():
        twin = TwinProcess()
        heard = listen(kinds, lambda heard: all(heard.values()))
        assert twin.stop() == 0
    description = ET.fromstring(heard["robot_description"][0].data)
    links = {f"{ROBOT}/{link.get('name')}" for link in description.findall("link")}
    frames = {
        each.child_frame_id: each for topic in ("/tf", "/tf_static") for msg in heard[topic] for each in msg.transforms
    }
    # Every link of the description has its frame, and all are connected to the world through the robot's base.
    assert links <= set(frames)
    for frame in (*links, f"{ROBOT}/camera"):
        above = frame
        while above != "world":
            above = frames[above].header.frame_id
    image, info = heard["camera/image/compressed"][0], heard["camera/camera_info"][0]
    assert image.header.frame_id == info.header.frame_id == f"{ROBOT}/camera"
    # The tool's frame is where the arm's own kinematics put it.
    position, above = np.zeros(3), f"{ROBOT}/tool"
    while above != "world":
        transform = frames[above].transform
        position = rotate(transform.rotation, position) + [getattr(transform.translation, axis) for axis in "xyz"]
        above = frames[above].header.frame_id
    tool = ArmSettings().kinematics().locate_tool(np.array(heard["joint_states"][0].position))
    assert position == pytest.approx([tool.x_m, tool.y_m, tool.z_m], abs=1e-3)


def rotate(quaternion: Any, vector: np.ndarray) -> np.ndarray:
    axis = np.array([quaternion.x, quaternion.y, quaternion.z])
    twice = 2.0 * np.cross(axis, vector)
    return np.asarray(vector + quaternion.w * twice + np.cross(axis, twice))
