"""Carry topics from one ROS domain to another, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile


@dataclass(frozen=True, slots=True)
class Carried:
    """One topic, with the QoS to subscribe and to publish with."""

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
        """Those that are not relayed yet."""
        return frozenset(self._waiting)

    def look(self) -> None:
        """Start what can be started; call it regularly, from the thread that spins the source."""
        for topic, each in list(self._waiting.items()):
            if self._source.count_publishers(topic):
                del self._waiting[topic]
                carry(self._source, self._sink, each)


def carry(source: Node, sink: Node, each: Carried) -> None:
    """Publish on one side whatever is published on the other, from now on."""
    publisher = sink.create_publisher(each.kind, each.topic, each.told)
    say: Callable[[bytes], None] = publisher.publish
    source.create_subscription(each.kind, each.topic, say, each.heard, raw=True)
