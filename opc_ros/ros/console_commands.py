"""What a person does on the console, carried to the lab's nodes."""

from __future__ import annotations

import threading

from rclpy.node import Node
from std_msgs.msg import Bool

from opc_ros.console.commands import Answer
from opc_ros.ros import topics


class LabCommands:
    """Stops arms and hands on signed statements; called from the web server's threads."""

    takes_statements = False

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._stops: dict[str, object] = {}

    def stop(self, robots: tuple[str, ...], person: str) -> Answer:
        if not robots:
            return Answer(False, "no robot has been heard yet, so there is none to stop; use the button at the arm")
        with self._lock:
            for robot in robots:
                if robot not in self._stops:
                    self._stops[robot] = self._node.create_publisher(Bool, f"/{robot}/stop", topics.LATEST)
                self._stops[robot].publish(Bool(data=True))  # type: ignore[attr-defined]
        return Answer(True, f"told to stop: {', '.join(robots)}")

    def submit(self, envelope: str) -> Answer:
        return Answer(False, "signed statements are not taken here; use `opc deploy` in a terminal")
