"""Publish a recorded episode again, byte for byte, on its topics and with its timing."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcap.reader import make_reader
from rclpy.duration import Duration

from opc_ros.errors import SetupError, StoreError
from opc_ros.ros import topics
from opc_ros.ros.brief_node import BriefNode

_NAP_S = 0.001  # the last bit before a message is due is spent polling, because sleep returns late
_FAREWELL = Duration(seconds=2.0)


def replay(path: Path, *, rate: float = 1.0, wait_s: float = 2.0, now: Callable[[], float] = time.monotonic) -> int:
    """Publish every message of an MCAP file, and return how many; waits up to `wait_s` for subscribers first."""
    publishers: dict[str, Any] = {}
    with BriefNode("replay") as brief:
        with path.open("rb") as stream:
            reader = make_reader(stream)
            summary = reader.get_summary()
            if summary is None:
                raise StoreError(f"{path}: has no summary; `opc store verify` says what is wrong with it")
            for channel in summary.channels.values():
                kind = _find_type(summary.schemas[channel.schema_id].name)
                qos = topics.STATIC if channel.topic.endswith("/tf_static") else topics.RECORDED
                publishers[channel.topic] = brief.node.create_publisher(kind, channel.topic, qos)
            _wait_for_listeners(publishers, now() + wait_s, now)
            count, first_ns, begun_s = 0, None, now()
            for _, channel, message in reader.iter_messages():
                first_ns = message.log_time if first_ns is None else first_ns
                _sleep_until(begun_s + (message.log_time - first_ns) / 1e9 / rate, now)
                publishers[channel.topic].publish(message.data)
                count += 1
        for publisher in publishers.values():
            publisher.wait_for_all_acked(_FAREWELL)
        return count


def _find_type(name: str) -> Any:
    package, _, kind = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), kind)
    except (ImportError, AttributeError):
        raise SetupError(f"message type {name} is not installed here") from None


def _wait_for_listeners(publishers: dict[str, Any], deadline_s: float, now: Callable[[], float]) -> None:
    while now() < deadline_s and not all(each.get_subscription_count() for each in publishers.values()):
        time.sleep(0.02)


def _sleep_until(due_s: float, now: Callable[[], float]) -> None:
    while (left_s := due_s - now()) > 0.0:
        if left_s > 2 * _NAP_S:
            time.sleep(left_s - _NAP_S)
