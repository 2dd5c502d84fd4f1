"""What a node reports on /diagnostics: failed callbacks, its longest pause, and the nodes it has discovered."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import threading
import traceback
from collections import deque
from functools import cache

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.node import Node

from opc_ros.bringup.lab_names import in_lab
from opc_ros.bringup.reach import describe_reach
from opc_ros.ros import convert, topics
from opc_ros.ros.steady import create_steady_timer

TELL_S = 1.0
KEPT = 60  # seconds over which the longest pause is reported
CALLBACKS = ": callbacks"  # suffix of the status name under which a node reports this


class NodeHealth:
    """Counts failures that a node survived, and publishes them once a second."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._failures = 0
        self._last = ""
        self._pause_s = 0.0
        self._pauses_s: deque[float] = deque(maxlen=KEPT)  # the longest in each second
        self._longest_s = 0.0
        name = f"{node.get_namespace().rstrip('/')}/{node.get_name()}"
        self._name = f"{name}{CALLBACKS}".lstrip("/")
        self._publisher = node.create_publisher(DiagnosticArray, in_lab("/diagnostics"), topics.RECORDED)
        self._timer = create_steady_timer(node, TELL_S, self._tell)

    @property
    def failures(self) -> int:
        return self._failures

    def note_failure(self, error: BaseException) -> None:
        """Count a callback that raised: no message may end a node, but the failure must be seen."""
        self._failures += 1
        self._last = f"{type(error).__name__}: {error}"[:300]
        trace = "".join(traceback.format_exception(error))
        self._node.get_logger().error(f"a callback failed; the node keeps running: {trace}", throttle_duration_sec=1.0)

    def note_pause(self, seconds: float) -> None:
        """Note how late something came that should have come on time."""
        self._pause_s = max(self._pause_s, seconds)
        self._longest_s = max(self._longest_s, seconds)

    def _tell(self) -> None:
        self._pauses_s.append(self._pause_s)
        self._pause_s = 0.0
        values = {
            "callbacks failed": str(self._failures),
            "last failure": self._last,
            "longest pause of the last minute, s": f"{max(self._pauses_s):.3f}",
            "longest pause, s": f"{self._longest_s:.3f}",
            **_describe_place(),
            "domain": str(self._node.context.get_domain_id()),
            "hears": " ".join(sorted(set(_heard_nodes(self._node)))),
        }
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if self._failures else DiagnosticStatus.OK,
            name=self._name,
            message=f"{self._failures} callbacks failed" if self._failures else "no callback has failed",
            hardware_id=self._node.get_namespace().strip("/"),
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        stamp_ns = int(self._node.get_clock().now().nanoseconds)
        self._publisher.publish(DiagnosticArray(header=convert.header(stamp_ns, ""), status=[status]))


@cache
def _describe_place() -> dict[str, str]:
    """Where this process runs, and its discovery range."""
    try:
        version = importlib.metadata.version("opc-ros")
    except importlib.metadata.PackageNotFoundError:
        version = "from a folder"
    reach = describe_reach()
    return {"version": version, "host": socket.gethostname(), "process": str(os.getpid()), "discovery": reach}


def _heard_nodes(node: Node) -> list[str]:
    """All nodes that it has discovered in its ROS domain, including itself."""
    return [f"{space.rstrip('/')}/{name}".lstrip("/") for name, space in node.get_node_names_and_namespaces()]


def spin_some(executor: Executor, health: NodeHealth, timeout_s: float) -> None:
    """Handle what has arrived; a callback that raises is counted, and the node lives on."""
    try:
        executor.spin_once(timeout_sec=timeout_s)
    except ExternalShutdownException:
        raise
    except Exception as error:
        health.note_failure(error)


def spin_until_closed(executor: Executor, health: NodeHealth, is_closing: threading.Event) -> None:
    """Spin in a thread until asked to end or ROS shuts down."""
    try:
        while not is_closing.is_set():
            spin_some(executor, health, 0.1)
    except ExternalShutdownException:
        return
