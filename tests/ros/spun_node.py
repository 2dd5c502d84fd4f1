"""A node of a test's own, in a ROS context of its own, spun by a thread of its own."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Self

import rclpy
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node


def destroy(node: Node) -> None:
    """A node stays alive, and visible to others, as long as one of its action clients does."""
    for client in [each for each in node.waitables if isinstance(each, ActionClient)]:
        client.destroy()
    node.destroy_node()


class SpunNode:
    """Spun from `start` to `close`; create its subscriptions before."""

    def __init__(self, name: str, namespace: str = "") -> None:
        self._context = Context()
        rclpy.init(args=[], context=self._context)
        self.node = Node(name, namespace=namespace, context=self._context, use_global_arguments=False)
        self.executor = SingleThreadedExecutor(context=self._context)
        self.executor.add_node(self.node)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(timeout=5)
        self.executor.shutdown()
        destroy(self.node)
        rclpy.try_shutdown(context=self._context)

    def _spin(self) -> None:
        while not self._is_closing.is_set():
            with suppress(rclpy_implementation.InvalidHandle):  # somebody destroyed what was about to be waited for
                self.executor.spin_once(timeout_sec=0.1)
