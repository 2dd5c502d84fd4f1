"""Carries stops between the lab's ROS domain and an arm's own, so that a stop on either side works on both at once."""

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
    """Passes on new stops; it recognises its own messages by the time at which it published them.

    Releases are passed inwards to the nodes that check them; the ids that a release must name are passed outwards.
    """

    def __init__(self, lab: Node, arm: Node) -> None:
        self._lock = threading.Lock()
        self._stopped: set[tuple[str, str]] = set()  # which nodes in the arm's domain obey a stop
        self._sides = {"lab": _Side(lab), "arm": _Side(arm)}
        for name, other in (("lab", "arm"), ("arm", "lab")):
            self._listen(name, other)
        carry(lab, arm, Carried(String, RELEASE, topics.STOPS, topics.RELEASES))
        # Several nodes of the arm publish theirs; keep the last message of each.
        carry(arm, lab, Carried(String, STOP_ID, topics.STOPS, topics.RELEASES))
        arm.create_subscription(String, STOP_ID, self._on_id, topics.STOPS)
        # A release waits for one "free" report per publisher, so each of the publishers here must send one.
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
        """Forget the stop once a node at the arm is released; nodes still stopped tell late joiners themselves."""
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
    """The stop topic in one domain."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._has_said = False
        self._publisher = node.create_publisher(Bool, STOP, topics.LATEST)
        self._times: deque[tuple[int, int]] = deque(maxlen=32)

    def is_own(self, stamp_ns: int) -> bool:
        return any(start <= stamp_ns <= end for start, end in self._times)

    def say_stopped(self) -> None:
        start_ns = time.time_ns()
        # The end is open until the call returns, because the message may come back before that.
        self._times.append((start_ns, start_ns + 1_000_000_000))
        self._publisher.publish(Bool(data=True))
        self._times[-1] = (start_ns, time.time_ns())
        self._has_said = True

    def forget(self) -> None:
        """Replace the publisher to remove the stop: a latched topic delivers its last message to late joiners."""
        if self._has_said:
            self.node.destroy_publisher(self._publisher)
            self._publisher = self.node.create_publisher(Bool, STOP, topics.LATEST)
            self._has_said = False
