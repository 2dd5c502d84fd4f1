"""A stop outlives the node that sent it and a killed guard, and reaches nodes that join later."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import EpisodeEvent, RobotStatus, SafetyEvent
from rclpy.duration import Duration
from std_msgs.msg import Bool

from opc_ros.arms.safety import StopSwitch
from opc_ros.ros import topics
from opc_ros.ros.stop_channel import SafetyReporter, StopChannel
from tests.ros.conftest import Probe, Process
from tests.ros.releasing import make_people, release

pytestmark = pytest.mark.ros


def test_a_guard_that_was_killed_comes_back_stopped_and_tells_those_who_come_later(
    tmp_path: Path, start: Callable[..., Process], probe: Probe
) -> None:
    states = probe.listen(RobotStatus, "/arm1/arm_guard/status", topics.LATEST)
    keys = make_people(tmp_path / "keys")
    parameters = {"arm_config": "arm_twin.yaml", "state": str(tmp_path / "arm1"), "keys": str(keys)}
    guard = start("arm_guard", "/arm1", **parameters)
    presser = probe.publisher(Bool, "/arm1/stop", topics.LATEST)
    presser.publish(Bool(data=True))
    probe.until(lambda: states and states[-1].state == RobotStatus.STOPPED, "the guard does not stop")
    probe.node.destroy_publisher(presser)
    guard.signal(signal.SIGKILL)
    guard.wait()
    states.clear()
    start("arm_guard", "/arm1", **parameters)
    probe.until(lambda: states, "the guard does not come back")
    assert states[0].state == RobotStatus.STOPPED
    late = probe.listen(Bool, "/arm1/stop", topics.LATEST)
    probe.until(lambda: late, "nobody tells late comers of the stop")
    assert late[0].data
    release("arm1", keys)
    probe.until(lambda: states[-1].state != RobotStatus.STOPPED, "the stop is not lifted")
    assert not (tmp_path / "arm1" / "stop.json").exists()


def test_a_stop_that_nobody_has_read_yet_is_obeyed_whatever_others_say_after_it(probe: Probe) -> None:
    holds: list[str] = []
    reporter = SafetyReporter(probe.node, "arm1")
    StopChannel(probe.node, StopSwitch("arm1"), reporter, on_press=lambda: holds.append("hold"), keys=None)
    presser, stranger = (probe.publisher(Bool, "stop", topics.LATEST) for _ in range(2))
    # Nobody reads in between: both messages are waiting when the node gets to them.
    presser.publish(Bool(data=True))
    assert presser.wait_for_all_acked(Duration(seconds=10))
    stranger.publish(Bool(data=False))
    assert stranger.wait_for_all_acked(Duration(seconds=10))
    probe.until(lambda: holds, "the stop was lost")


def test_a_stop_names_the_episode_it_ended_though_the_end_is_heard_first(probe: Probe) -> None:
    told = probe.listen(SafetyEvent, "safety/event", topics.RECORDED)
    reporter = SafetyReporter(probe.node, "arm1")
    probe.until(lambda: reporter.listeners, "nobody listens")

    def hear(kind: int, episode_id: str) -> None:
        reporter.hear_episode(EpisodeEvent(kind=kind, episode_id=episode_id))

    hear(EpisodeEvent.BEGIN, "broken")
    hear(EpisodeEvent.ABORT, "broken")
    reporter.report(SafetyEvent.STOP, "heard after what it did")
    reporter.report(SafetyEvent.WATCHDOG, "nothing runs any more")
    hear(EpisodeEvent.BEGIN, "whole")
    hear(EpisodeEvent.END, "whole")
    reporter.report(SafetyEvent.STOP, "after an episode that ended by itself")
    probe.until(lambda: len(told) == 3, "not all is told")
    assert [(event.kind, event.episode_id) for event in told] == [
        (SafetyEvent.STOP, "broken"),
        (SafetyEvent.WATCHDOG, ""),
        (SafetyEvent.STOP, ""),
    ]
