"""Twin or commander killed in mid episode: the other holds, says so, and works again with a new partner."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus, SafetyEvent

from opc_ros.errors import ArmLost
from opc_ros.grasp import GraspAction
from opc_ros.ros.ros_arm import RosArm
from tests.ros.twin_rig import ROOT, SETTINGS, TwinProcess, Watcher

pytestmark = pytest.mark.ros


@pytest.fixture
def watcher(ros_domain: int) -> Iterator[Watcher]:
    watcher = Watcher()
    yield watcher
    watcher.close()


def test_a_killed_twin_is_reported_and_the_next_one_starts_anew(watcher: Watcher):
    twin = TwinProcess()
    arm = RosArm(SETTINGS)
    try:
        arm.begin(seed=1)
        arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
        twin.kill()
        with pytest.raises(ArmLost, match=r"joint states: none for .* allowed 1\.50"):
            arm.apply(GraspAction(displacement_m=(0.0, 0.05, 0.0)))
        event = watcher.wait_for_event(SafetyEvent.WATCHDOG)
        assert event.detail.startswith("joint states: none for")
        with pytest.raises(ArmLost, match="begin a new episode"):
            arm.apply(GraspAction(displacement_m=(0.0, -0.05, 0.0)))
        twin = TwinProcess()
        tool = arm.begin(seed=1).tool
        assert (tool.x_m, tool.y_m, tool.z_m) == pytest.approx((0.55, 0.0, 0.22), abs=1e-3)
    finally:
        arm.close()
        twin.stop()


def test_a_killed_commander_leaves_the_twin_holding_in_mid_motion(watcher: Watcher):
    twin = TwinProcess(real_time_factor=1.0)
    commander = subprocess.Popen(
        [sys.executable, "-m", "tests.ros.slow_commander"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert commander.stdin is not None
    assert commander.stdout is not None
    try:
        assert commander.stdout.readline() == "ready\n"
        watcher.wait_for_state(RobotStatus.IDLE)
        commander.stdin.write("go\n")
        commander.stdin.flush()
        assert commander.stdout.readline() == "moving\n"
        commander.send_signal(signal.SIGKILL)
        status = watcher.wait_for_state(RobotStatus.HOLDING)
        assert status.reason.startswith("commands and heartbeats: none for")
        assert watcher.wait_for_event(SafetyEvent.WATCHDOG).detail.endswith("holding in mid motion")
        count = len(watcher.joints)
        watcher.wait_until(lambda: len(watcher.joints) > count + 20)
        assert max(map(abs, watcher.joints[-1].velocity)) < 1e-3
        arm = RosArm(SETTINGS)
        arm.begin(seed=2)
        watcher.wait_for_state(RobotStatus.IDLE)
        arm.close()
    finally:
        commander.kill()
        commander.wait()
        assert twin.stop() == 0
