"""A short-lived node in a ROS context of its own, independent of any other use of ROS in the program."""

from __future__ import annotations

from typing import Self

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

PULSE_S = 0.05  # the longest a signal may go unnoticed: rcl waits in C, where Python's signal handlers do not run


class BriefNode:
    """Has no parameters, ignores the command line, and is spun by whichever code waits for something."""

    def __init__(self, name: str, *, namespace: str = "", domain: int | None = None, has_log: bool = True) -> None:
        """By default in the ROS domain of the environment; `has_log` publishes log messages on /rosout."""
        self._context = Context()
        rclpy.init(args=[], context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node(
            name,
            namespace=namespace,
            context=self._context,
            use_global_arguments=False,
            enable_rosout=has_log,
            start_parameter_services=False,
        )
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pulse(self, within_s: float = PULSE_S) -> None:
        """Run callbacks that are ready, or the next one that becomes ready in time."""
        self._executor.spin_once(timeout_sec=within_s)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)
