"""Find nodes and topics on the ROS graph."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rclpy.node import Node

from opc_ros.bringup.lab_names import read_namespace
from opc_ros.ros.brief_node import BriefNode

GATEWAY = "arm_gateway"
IMAGE_TYPES = {"sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"}


def find_obeyed(names: Iterable[str], *, timeout_s: float = 1.0) -> list[str]:
    """Those of these names on which a program other than a gateway accepts trajectories, commands or goals."""
    wanted = tuple(names)
    with _looking_node() as looking:
        time.sleep(timeout_s)
        return [name for name in wanted if _is_obeyed(looking.node, name)]


def _is_obeyed(node: Node, name: str) -> bool:
    for suffix in ("", "/joint_trajectory", "/follow_joint_trajectory/_action/send_goal", "/_action/send_goal"):
        if any(info.node_name != GATEWAY for info in node.get_subscriptions_info_by_topic(name + suffix)):
            return True
        if node.count_services(name + suffix):
            return True
    return False


def find_image_topics(*, timeout_s: float = 2.0) -> list[str]:
    """Image topics that somebody publishes; returns as soon as there is one."""
    with _looking_node() as looking:
        deadline = time.monotonic() + timeout_s
        while not (topics := _published_images(looking.node)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return topics


def _looking_node() -> BriefNode:
    return BriefNode("opc_discovery", namespace=read_namespace(), has_log=False)


def _published_images(node: Node) -> list[str]:
    topics = node.get_topic_names_and_types()
    return sorted(name for name, types in topics if IMAGE_TYPES & set(types) and node.count_publishers(name))
