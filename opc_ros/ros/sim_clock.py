"""Simulated time on /clock, for ROS nodes that use it."""

from __future__ import annotations

from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from opc_ros.errors import ArmError
from opc_ros.ros import convert

TOPIC = "/clock"  # ROS's own name, of which a domain has one


class SimClock:
    """Starts at the machine's time, then runs as fast as the simulation."""

    def __init__(self, node: Node, start_ns: int) -> None:
        self._node, self._now_ns = node, start_ns
        self._publisher = node.create_publisher(Clock, TOPIC, 10)

    def close(self) -> None:
        self._node.destroy_publisher(self._publisher)

    def advance(self, simulated_s: float) -> None:
        """Advance and publish the time; raises ArmError if somebody else publishes it too: nodes cannot follow both."""
        if (count := self._node.count_publishers(TOPIC)) > 1:
            raise ArmError(f"{count} publishers of {TOPIC} in this ROS domain, expected one: give each its own domain")
        self._now_ns += round(simulated_s * 1e9)
        self._publisher.publish(Clock(clock=convert.stamp_from_ns(self._now_ns)))
