"""People of a small lab, and releases that one of them signs."""

from __future__ import annotations

import time
from pathlib import Path

from rclpy.node import Node
from std_msgs.msg import String

from opc_ros.deployment.signing import find_signer, make_person_key
from opc_ros.deployment.stop_release import sign_release
from opc_ros.ros import topics
from opc_ros.ros.stop_call import StopCall
from opc_ros.ros.stop_listener import ObeyedStop

PERSON = "ada"


def make_people(keys: Path) -> Path:
    """A keys folder in which ada has every role."""
    make_person_key(keys, PERSON)
    return keys


class Releaser:
    """Hears on a node which stops are obeyed, and releases them as often as asked."""

    def __init__(self, node: Node, robot: str, keys: Path) -> None:
        self._robot, self._signs = robot, find_signer(keys, keys / f"{PERSON}.person.pem")
        self._ids: set[int] = set()
        self._publisher = node.create_publisher(String, f"/{robot}/release", topics.RELEASES)
        node.create_subscription(String, f"/{robot}/stop_id", self._hear, topics.STOPS)

    def release(self) -> None:
        for stop_ns in tuple(self._ids):
            self._ids.discard(stop_ns)
            self._publisher.publish(String(data=sign_release(self._signs, self._robot, stop_ns, time.time_ns())))

    def _hear(self, msg: String) -> None:
        if (said := ObeyedStop.from_msg(msg)) is not None and said.stop_ns:
            self._ids.add(said.stop_ns)


def release(robot: str, keys: Path, *, timeout_s: float = 90.0) -> None:
    """As `opc release` does, again if a stop was repeated after it began, like a person would."""
    signs, deadline_s = find_signer(keys, keys / f"{PERSON}.person.pem"), time.monotonic() + timeout_s
    confirmed: list[str] = []
    while not confirmed:
        assert time.monotonic() < deadline_s, f"{robot} is not released"
        with StopCall() as call:
            confirmed, _ = call.release([robot], signs, timeout_s=15.0)
    assert confirmed == [robot]
