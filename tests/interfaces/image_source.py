"""A process that publishes numbered 472x472 images at a fixed rate, then ends."""

from __future__ import annotations

import sys

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image


def main(count: int, rate_hz: float) -> None:
    rclpy.init()
    node = Node("image_source")
    publisher = node.create_publisher(Image, "image", QoSProfile(depth=150, reliability=ReliabilityPolicy.RELIABLE))
    pixels = np.random.default_rng(0).integers(0, 256, 472 * 472 * 3, dtype=np.uint8).tobytes()
    message = Image(height=472, width=472, encoding="rgb8", step=472 * 3)
    message.data.frombytes(pixels)
    sent = 0

    def publish() -> None:
        nonlocal sent
        if publisher.get_subscription_count() == 0 or sent == count:
            return
        message.header.stamp.sec = sent
        publisher.publish(message)
        sent += 1

    node.create_timer(1.0 / rate_hz, publish)
    while sent < count or publisher.get_subscription_count() > 0:
        rclpy.spin_once(node, timeout_sec=0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
