"""Topics carried from one ROS domain into another, as the bytes they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile


@dataclass(frozen=True, slots=True)
class Carried:
    """One topic: how it is listened to on one side, and offered on the other."""

    kind: Any
    topic: str
    heard: QoSProfile | int
    told: QoSProfile | int


class Relay:
    """Starts relaying a topic once it has a publisher, so that no dead topics are offered."""

    def __init__(self, source: Node, sink: Node, carried: tuple[Carried, ...]) -> None:
        self._source, self._sink = source, sink
        self._waiting = {each.topic: each for each in carried}

    @property
    def topics(self) -> frozenset[str]:
        """Those that are not carried yet."""
        return frozenset(self._waiting)

    def look(self) -> None:
        """Call it now and then, from the thread that spins the source."""
        for topic, each in list(self._waiting.items()):
            if self._source.count_publishers(topic):
                del self._waiting[topic]
                carry(self._source, self._sink, each)


def carry(source: Node, sink: Node, each: Carried) -> None:
    """From now on, whatever is said on one side is said on the other."""
    publisher = sink.create_publisher(each.kind, each.topic, each.told)
    say: Callable[[bytes], None] = publisher.publish
    source.create_subscription(each.kind, each.topic, say, each.heard, raw=True)
