"""A node for a while, in a ROS context of its own, beside whatever else the program does with ROS."""

from __future__ import annotations

from typing import Self

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

PULSE_S = 0.05  # how long a signal may go unnoticed: rcl waits in C, where Python's handlers do not run


class BriefNode:
    """Offers no parameters, takes nothing from the command line, and is spun by whoever waits for something."""

    def __init__(self, name: str, *, namespace: str = "", domain: int | None = None, has_log: bool = True) -> None:
        """Without a domain, in the one of the environment; `has_log` publishes its log lines on /rosout."""
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
        """Hear what has come, or the next that comes in time."""
        self._executor.spin_once(timeout_sec=within_s)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)
