"""What a person does on the console, carried to the lab's nodes."""

from __future__ import annotations

import threading

from opc_interfaces.srv import SubmitStatement
from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import Bool

from opc_ros.console.commands import CommandAnswer
from opc_ros.ros import topics

ANSWER_S = 10.0


class LabCommands:
    """Stops arms and hands on signed statements; called from the web server's threads."""

    takes_statements = True

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._stops: dict[str, Publisher] = {}
        self._statements = node.create_client(SubmitStatement, "/deployment/statement")

    def stop(self, robots: tuple[str, ...], person: str) -> CommandAnswer:
        if not robots:
            return CommandAnswer(
                False, "no robot has been heard yet, so there is none to stop; use the button at the arm"
            )
        with self._lock:
            for robot in robots:
                if robot not in self._stops:
                    self._stops[robot] = self._node.create_publisher(Bool, f"/{robot}/stop", topics.LATEST)
                self._stops[robot].publish(Bool(data=True))
        return CommandAnswer(True, f"told to stop: {', '.join(robots)}")

    def note_released(self, robot: str) -> None:
        """Press no longer: what a publisher said last is told to every node that starts later."""
        with self._lock:
            publisher = self._stops.pop(robot, None)
        if publisher is not None:
            self._node.destroy_publisher(publisher)

    def submit(self, envelope: str) -> CommandAnswer:
        if not self._statements.service_is_ready():
            return CommandAnswer(False, "no scheduler is to be heard; start it, or use `opc deploy` where it lies")
        answered = threading.Event()
        future = self._statements.call_async(SubmitStatement.Request(statement=envelope))
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(ANSWER_S) or future.result() is None:
            return CommandAnswer(
                False, f"the scheduler gave no answer in {ANSWER_S:g} s; look at the request before you repeat it"
            )
        answer = future.result()
        return CommandAnswer(bool(answer.success), str(answer.message))
