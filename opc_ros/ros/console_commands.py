"""Carries what a person does on the console to the lab's nodes."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable
from typing import Any

from opc_interfaces.srv import GetDeployment, HaltDeployment, SubmitStatement
from rclpy.client import Client
from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import Bool, String

from opc_ros.bringup.lab_names import in_lab
from opc_ros.console.commands import CommandAnswer
from opc_ros.ros import topics
from opc_ros.ros.stop_listener import RELEASE, STOP

ANSWER_S = 10.0
RELEASE_S = 5.0  # how long to wait for an arm to say that it is released, or why not
NO_SCHEDULER = "no scheduler answers; start it, or use `opc deploy` on its machine"


class LabCommands:
    """Stops arms and forwards signed statements; called from the web server's threads."""

    takes_statements = True

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._stops: dict[str, Publisher] = {}
        self._releases: dict[str, Publisher] = {}
        self._release_answers: dict[str, tuple[threading.Event, list[CommandAnswer]]] = {}
        self._statements = node.create_client(SubmitStatement, in_lab("/deployment/statement"))
        self._halts = node.create_client(HaltDeployment, in_lab("/deployment/halt"))
        self._status = node.create_client(GetDeployment, in_lab("/deployment/status"))

    def stop(self, robots: tuple[str, ...], person: str) -> CommandAnswer:
        if not robots:
            return CommandAnswer(False, "no robot has been heard from yet; use the button at the arm")
        with self._lock:
            for robot in robots:
                self._stop_publisher(robot).publish(Bool(data=True))
        return CommandAnswer(True, f"told to stop: {', '.join(robots)}")

    def prepare_stops(self, robots: Iterable[str]) -> None:
        """Create the publishers early, so that a stop need not wait for discovery."""
        with self._lock:
            for robot in robots:
                self._stop_publisher(robot)

    def note_released(self, robot: str) -> None:
        """Stop repeating the stop: a latched topic delivers its last message to every node that joins later."""
        with self._lock:
            publisher = self._stops.pop(robot, None)
        if publisher is not None:
            self._node.destroy_publisher(publisher)
        self._answer_release(robot, CommandAnswer(True, f"{robot} is released"))

    def note_refused(self, robot: str, detail: str) -> None:
        """Handle an arm's refusal, which may be the answer to a release somebody is waiting for."""
        self._answer_release(robot, CommandAnswer(False, f"{robot} refused: {detail}"))

    def submit(self, envelope: str) -> CommandAnswer:
        robot = _released_robot(envelope)
        if robot:
            return self._release(robot, envelope)
        answer = self._call(self._statements, SubmitStatement.Request(statement=envelope))
        if answer is None:
            return CommandAnswer(False, self._silence(self._statements))
        return CommandAnswer(bool(answer.success), str(answer.message))

    def halt(self, robot: str, person: str, reason: str) -> CommandAnswer:
        asked = HaltDeployment.Request(robot=robot, person=person or "console", reason=reason)
        answer = self._call(self._halts, asked)
        if answer is None:
            return CommandAnswer(False, self._silence(self._halts))
        return CommandAnswer(bool(answer.success), str(answer.message))

    def explain(self, request_id: str) -> dict[str, Any] | None:
        answer = self._call(self._status, GetDeployment.Request(request_id=request_id))
        if answer is None or not answer.success:
            return None
        found: dict[str, Any] = json.loads(answer.status_json)
        return found

    def _stop_publisher(self, robot: str) -> Publisher:
        if robot not in self._stops:
            self._stops[robot] = self._node.create_publisher(Bool, in_lab(f"/{robot}/{STOP}"), topics.LATEST)
        return self._stops[robot]

    def _release(self, robot: str, envelope: str) -> CommandAnswer:
        """Publish a release, and wait for the answer of the arm's nodes, which check it."""
        said, answers = threading.Event(), list[CommandAnswer]()
        with self._lock:
            if robot not in self._releases:
                self._releases[robot] = self._node.create_publisher(
                    String, in_lab(f"/{robot}/{RELEASE}"), topics.RELEASES
                )
            self._release_answers[robot] = (said, answers)
            self._releases[robot].publish(String(data=envelope))
        said.wait(RELEASE_S)
        with self._lock:
            self._release_answers.pop(robot, None)
        return (
            answers[0]
            if answers
            else CommandAnswer(
                False, f"{robot} has not confirmed in {RELEASE_S:g} s; look at its state before you try again"
            )
        )

    def _answer_release(self, robot: str, answer: CommandAnswer) -> None:
        with self._lock:
            waiting = self._release_answers.get(robot)
        if waiting is not None:
            waiting[1].append(answer)
            waiting[0].set()

    def _call(self, client: Client, request: Any) -> Any | None:
        if not client.service_is_ready():
            return None
        answered = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(ANSWER_S):
            client.remove_pending_request(future)
            return None
        return future.result()

    def _silence(self, client: Client) -> str:
        if not client.service_is_ready():
            return NO_SCHEDULER
        return f"the scheduler gave no answer in {ANSWER_S:g} s; look at the request before you repeat it"


def _released_robot(envelope: str) -> str:
    """The robot that a release is for; empty for other statements. Not trusted: the robot checks the release itself."""
    try:
        said = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
        robot = str(said["body"]["robot"]) if said["kind"] == "release_stop" else ""
    except (ValueError, KeyError, TypeError):
        return ""
    return robot if robot.isidentifier() and robot.isascii() else ""
