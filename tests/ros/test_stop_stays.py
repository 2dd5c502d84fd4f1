"""A stop outlives its presser and a killed guard, and is told to whoever comes later."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus
from std_msgs.msg import Bool

from opc_ros.ros import topics
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros


def test_a_guard_that_was_killed_comes_back_stopped_and_tells_those_who_come_later(
    tmp_path: Path, start: Callable[..., Process], probe: Probe
) -> None:
    states = probe.listen(RobotStatus, "/arm1/arm_guard/status", topics.LATEST)
    parameters = {"arm_config": "arm_twin.yaml", "state": str(tmp_path / "arm1")}
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
    releaser = probe.publisher(Bool, "/arm1/stop", topics.LATEST)
    releaser.publish(Bool(data=False))
    probe.until(lambda: states[-1].state != RobotStatus.STOPPED, "the stop is not lifted")
    assert not (tmp_path / "arm1" / "stop.json").exists()
