"""Tell robots of a halt directly, beside the scheduler, and hear from each that it has obeyed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import rclpy
from opc_interfaces.msg import RobotStatus
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from opc_ros.ros import topics
from opc_ros.ros.halt_desk import REVOCATIONS

PULSE_S = 0.05


def await_confirmations(
    robots: Iterable[str],
    revocations: str,
    serial: int,
    revoked: frozenset[str],
    given_back: Callable[[], Iterable[str]],
    timeout_s: float,
) -> frozenset[str]:
    """Which of the robots say that they know the list and run no permit on it; `given_back` are known otherwise.

    The list is published from here too: a halt must not depend on a scheduler that is dead or hangs.
    """
    waiting, confirmed = set(robots), set[str]()
    context = Context()
    rclpy.init(args=[], context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("halt", context=context, use_global_arguments=False, start_parameter_services=False)

    def hear(robot: str, status: RobotStatus) -> None:
        if status.revocation_serial >= serial and status.permit_id not in revoked:
            confirmed.add(robot)

    try:
        for robot in waiting:
            node.create_subscription(
                RobotStatus, f"/{robot}/robot/status", lambda msg, robot=robot: hear(robot, msg), topics.LATEST
            )
        node.create_publisher(String, REVOCATIONS, topics.LATEST).publish(String(data=revocations))
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        deadline = time.monotonic() + timeout_s
        while not waiting <= confirmed and time.monotonic() < deadline:
            executor.spin_once(timeout_sec=PULSE_S)
            confirmed |= waiting & set(given_back())
        executor.shutdown()
    finally:
        node.destroy_node()
        rclpy.try_shutdown(context=context)
    return frozenset(confirmed)
