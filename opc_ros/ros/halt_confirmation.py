"""Tell robots of a halt directly, beside the scheduler, and hear from each that it has obeyed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import rclpy
from opc_interfaces.msg import RobotStatus
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from opc_ros.bringup.lab_names import in_lab, read_namespace
from opc_ros.ros import topics
from opc_ros.ros.halt_service import REVOCATIONS

PULSE_S = 0.05


class HaltCall:
    """Speaks to the robots itself: a halt must not depend on a scheduler that is dead or hangs."""

    def __init__(self, robots: Iterable[str]) -> None:
        self._robots = frozenset(robots)
        self._heard: dict[str, RobotStatus] = {}
        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node(
            "halt",
            namespace=read_namespace(),
            context=self._context,
            use_global_arguments=False,
            start_parameter_services=False,
        )
        self._revocations = self._node.create_publisher(String, in_lab(REVOCATIONS), topics.LATEST)
        for robot in self._robots:
            topic = in_lab(f"/{robot}/robot/status")
            self._node.create_subscription(RobotStatus, topic, partial(self._hear, robot), topics.LATEST)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)

    def __enter__(self) -> HaltCall:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def tell(self, revocations: str) -> None:
        """Publish a signed list; whoever joins while this lives hears it too."""
        self._revocations.publish(String(data=revocations))

    def wait(
        self, serial: int, revoked: frozenset[str], given_back: Callable[[], Iterable[str]], timeout_s: float
    ) -> frozenset[str]:
        """Robots that say they know the list and run no permit on it; `given_back` are known otherwise."""
        deadline = time.monotonic() + timeout_s
        confirmed: frozenset[str] = frozenset()
        while not self._robots <= confirmed and time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=PULSE_S)
            said = {
                robot
                for robot, status in self._heard.items()
                if status.revocation_serial >= serial and status.permit_id not in revoked
            }
            confirmed = frozenset(said | (self._robots & set(given_back())))
        return confirmed

    def _hear(self, robot: str, status: RobotStatus) -> None:
        self._heard[robot] = status
