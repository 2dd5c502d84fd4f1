"""Detects other publishers on the topics of a robot's episodes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from rclpy.node import Node

# Programs of a robot that publish episodes. Each keeps its publishers open while another one drives the arm.
DRIVERS = frozenset({"behaviour", "collector", "policy_runner", "scripted_arm"})
UNKNOWN = "_NODE_NAME_UNKNOWN_"  # discovered, but its name has not arrived yet, or not a ROS node at all
NAMED_WITHIN_S = 2.0


class EpisodePublishers:
    """Looks at who publishes the topics of one robot's episodes."""

    def __init__(self, node: Node, topics: Iterable[str]) -> None:
        self._node = node
        self._topics = tuple(topics)
        self._unknown_since_s: dict[str, float] = {}

    def find_rivals(self) -> str:
        """A line to report if a topic has too many publishers; otherwise empty."""
        for topic in self._topics:
            names = Counter(
                f"{each.node_namespace.rstrip('/')}/{each.node_name}"
                for each in self._node.get_publishers_info_by_topic(topic)
            )
            drivers = [f"{self._node.get_namespace().rstrip('/')}/{name}" for name in DRIVERS]
            known = sum(min(names[driver], 1) for driver in drivers)
            count = sum(names.values()) - self._still_unnamed(topic, names)
            if count > max(known, 1):
                full_name = self._node.resolve_topic_name(topic)
                return f"{count} publishers of {full_name}, expected {max(known, 1)}: whose episode is this?"
        return ""

    def _still_unnamed(self, topic: str, names: Counter[str]) -> int:
        """Number of publishers whose names may still arrive, since names come a moment later."""
        count = sum(number for name, number in names.items() if name.endswith(UNKNOWN))
        if not count:
            self._unknown_since_s.pop(topic, None)
            return 0
        since_s = self._unknown_since_s.setdefault(topic, time.monotonic())
        return count if time.monotonic() - since_s < NAMED_WITHIN_S else 0
