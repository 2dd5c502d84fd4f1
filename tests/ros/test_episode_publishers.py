"""Which publishers of a robot's episode topics are its own programs, and which are strangers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy")

from opc_ros.ros import episode_publishers
from opc_ros.ros.episode_publishers import UNKNOWN, EpisodePublishers


class Graph:
    """What a node of /arm1 knows about the publishers of one topic."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def get_publishers_info_by_topic(self, topic: str) -> list[Any]:
        pairs = [name.rpartition("/") for name in self.names]
        return [SimpleNamespace(node_namespace=space or "/", node_name=name) for space, _, name in pairs]

    def get_namespace(self) -> str:
        return "/arm1"

    def resolve_topic_name(self, topic: str) -> str:
        return f"/arm1/{topic}"


def find(*names: str) -> str:
    graph: Any = Graph(*names)
    return EpisodePublishers(graph, ["grasp/step"]).find_rivals()


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("/cell/my_own_arm",),
        ("/arm1/policy_runner",),
        ("/arm1/policy_runner", "/arm1/behaviour"),
        ("/arm1/policy_runner", "/arm1/behaviour", "/arm1/collector"),
    ],
)
def test_a_robots_own_programs_may_all_be_there(names: tuple[str, ...]) -> None:
    assert find(*names) == ""


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("/cell/my_own_arm", "/stranger"), "2 publishers of /arm1/grasp/step, expected 1"),
        (("/arm1/policy_runner", "/stranger"), "2 publishers of /arm1/grasp/step, expected 1"),
        (("/arm1/policy_runner", "/arm1/policy_runner"), "2 publishers of /arm1/grasp/step, expected 1"),
        (("/arm1/policy_runner", "/arm1/behaviour", "/arm2/behaviour"), "3 publishers of /arm1/grasp/step, expected 2"),
    ],
)
def test_anybody_else_is_a_rival(names: tuple[str, ...], line: str) -> None:
    assert find(*names).startswith(line)


def test_a_publisher_without_a_name_gets_a_moment_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: clock.seconds, seconds=10.0)
    monkeypatch.setattr(episode_publishers, "time", clock)
    graph: Any = Graph("/arm1/policy_runner", f"/{UNKNOWN}")
    publishers = EpisodePublishers(graph, ["grasp/step"])
    assert publishers.find_rivals() == ""
    clock.seconds = 11.9
    assert publishers.find_rivals() == ""
    clock.seconds = 12.1
    assert publishers.find_rivals().startswith("2 publishers of /arm1/grasp/step, expected 1")
    graph.names = ("/arm1/policy_runner", "/arm1/behaviour")
    assert publishers.find_rivals() == ""
