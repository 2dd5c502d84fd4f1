"""Stops between the lab's ROS domain and an arm's own: told on either side, they count at once on both."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from rclpy.node import Node
from std_msgs.msg import Bool, String

from opc_ros.ros import topics
from opc_ros.ros.relay import Carried, carry
from opc_ros.ros.stop_listener import RELEASE, STOP, STOP_ID, ObeyedStop


class StopBridge:
    """Passes on what is news; what it has said itself it knows again by when it said it.

    Releases go in to those who check them, and which stop they have to name comes out.
    """

    def __init__(self, lab: Node, arm: Node) -> None:
        self._lock = threading.Lock()
        self._stopped: set[tuple[str, str]] = set()  # who obeys a stop in the arm's domain
        self._sides = {"lab": _Side(lab), "arm": _Side(arm)}
        for name, other in (("lab", "arm"), ("arm", "lab")):
            self._listen(name, other)
        carry(lab, arm, Carried(String, RELEASE, topics.STOPS, topics.RELEASES))
        # Several nodes of the arm tell theirs, and the last ones of all are kept.
        carry(arm, lab, Carried(String, STOP_ID, topics.STOPS, topics.RELEASES))
        arm.create_subscription(String, STOP_ID, self._on_id, topics.STOPS)
        # Whoever releases waits until as many have said that they are free as publish: a word for each publisher here.
        self._own = lab.create_publisher(String, STOP_ID, topics.RELEASES)
        for publisher in ("relay", "bridge"):
            self._own.publish(ObeyedStop(lab.get_fully_qualified_name(), publisher, 0).to_msg())

    def _listen(self, name: str, other: str) -> None:
        side, across = self._sides[name], self._sides[other]

        def hear(msg: Bool, info: dict[str, Any]) -> None:
            if msg.data and not side.is_own(int(info["source_timestamp"])):
                with self._lock:
                    across.say_stopped()

        side.node.create_subscription(Bool, STOP, hear, topics.STOPS)

    def _on_id(self, msg: String) -> None:
        """Once a node at the arm is released, those still stopped tell it themselves to whoever joins later."""
        said = ObeyedStop.from_msg(msg)
        if said is None:
            return
        with self._lock:
            who = (said.node, said.listener)
            if said.stop_ns:
                self._stopped.add(who)
            elif who in self._stopped:
                self._stopped.discard(who)
                for side in self._sides.values():
                    side.forget()


class _Side:
    """One domain's topic."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._has_said = False
        self._publisher = node.create_publisher(Bool, STOP, topics.LATEST)
        self._times: deque[tuple[int, int]] = deque(maxlen=32)

    def is_own(self, stamp_ns: int) -> bool:
        return any(start <= stamp_ns <= end for start, end in self._times)

    def say_stopped(self) -> None:
        start_ns = time.time_ns()
        # The end is open until the call returns, and the message may come back before that.
        self._times.append((start_ns, start_ns + 1_000_000_000))
        self._publisher.publish(Bool(data=True))
        self._times[-1] = (start_ns, time.time_ns())
        self._has_said = True

    def forget(self) -> None:
        """A latched topic delivers its last message to late joiners, so the stop is removed with its publisher."""
        if self._has_said:
            self.node.destroy_publisher(self._publisher)
            self._publisher = self.node.create_publisher(Bool, STOP, topics.LATEST)
            self._has_said = False
