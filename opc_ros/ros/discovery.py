"""Look at what is on the ROS graph."""

from __future__ import annotations

import time

import rclpy
from rclpy.context import Context
from rclpy.node import Node

IMAGE_TYPES = {"sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"}


def find_image_topics(*, timeout_s: float = 2.0) -> list[str]:
    """Topics with images that somebody publishes; returns as soon as it has seen one."""
    context = Context()
    rclpy.init(context=context)
    try:
        node = Node("opc_discovery", context=context, enable_rosout=False, start_parameter_services=False)
        deadline = time.monotonic() + timeout_s
        while not (topics := _published_images(node)) and time.monotonic() < deadline:
            time.sleep(0.05)
        node.destroy_node()
        return topics
    finally:
        rclpy.shutdown(context=context)


def _published_images(node: Node) -> list[str]:
    topics = node.get_topic_names_and_types()
    return sorted(name for name, types in topics if IMAGE_TYPES & set(types) and node.count_publishers(name))
