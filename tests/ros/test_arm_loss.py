"""Twin or commander killed in mid episode: the other holds, says so, and works again with a new partner."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import psutil
import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus, SafetyEvent

from opc_ros.errors import ArmLost
from opc_ros.grasp import GraspAction
from opc_ros.ros.ros_arm import RosArm
from sim_bridge.kuka import KINEMATICS
from tests.ros.twin_rig import ROBOT, ROOT, SETTINGS, TwinProcess, Watcher, own_domain

pytestmark = pytest.mark.ros
TIMEOUT_S = 3.0


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    with own_domain() as domain:
        yield domain


class TwinKeeper:
    """Starts a twin when one is needed and none is alive."""

    def __init__(self) -> None:
        self._twin: TwinProcess | None = None

    def get(self) -> TwinProcess:
        if self._twin is None or self._twin.child.poll() is not None:
            self._twin = TwinProcess(real_time_factor=1.0, command_timeout_s=TIMEOUT_S)
        return self._twin


@pytest.fixture(scope="module")
def keeper(domain: int) -> Iterator[TwinKeeper]:
    keeper = TwinKeeper()
    yield keeper
    assert keeper.get().stop() == 0


@pytest.fixture
def watcher(domain: int) -> Iterator[Watcher]:
    watcher = Watcher()
    yield watcher
    watcher.close()


class Commander:
    """Another process that moves the arm slowly until it is killed."""

    def __enter__(self) -> Commander:
        command = [sys.executable, "-m", "tests.ros.slow_commander"]
        self._child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()

    def move(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n"
        self._child.stdin.write("go\n")
        self._child.stdin.flush()
        assert self._child.stdout.readline() == "moving\n"

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)


def test_a_killed_commander_leaves_the_twin_holding_in_mid_motion(keeper: TwinKeeper, watcher: Watcher):
    keeper.get()
    with Commander() as commander:
        commander.move()
        commander.kill()
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


def test_a_guard_holds_an_arm_before_its_driver_would(keeper: TwinKeeper, watcher: Watcher):
    keeper.get()
    words = ["--ros-args", "-r", f"__ns:=/{ROBOT}", "-p", f"heartbeat_timeout_s:={TIMEOUT_S / 2}"]
    guard = subprocess.Popen([sys.executable, "-m", "opc_ros.ros.arm_guard_node", *words], cwd=ROOT)
    try:
        # Twin and guard.
        watcher.wait_until(lambda: watcher.node.count_subscribers(f"/{ROBOT}/heartbeat") >= 2)
        with Commander() as commander:
            commander.move()
            watcher.wait_for_state(RobotStatus.RUNNING)
            commander.kill()
        watcher.wait_until(lambda: any(event.detail.startswith("heartbeats: none for") for event in watcher.events))
        watcher.wait_until(lambda: max(map(abs, watcher.joints[-1].velocity)) < 1e-3)
        # The whole way is 0.08 m and takes 15 s.
        assert 0.0 < KINEMATICS.locate_tool(np.array(watcher.joints[-1].position)).y_m < 0.075
    finally:
        guard.terminate()
        assert guard.wait(timeout=15) == 0


def test_a_killed_twin_is_reported_and_the_next_one_starts_anew(keeper: TwinKeeper, watcher: Watcher):
    twin = keeper.get()
    arm = RosArm(dataclasses.replace(SETTINGS, measurement_timeout_s=TIMEOUT_S))
    arm.begin(seed=1)
    arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
    family = psutil.Process(twin.child.pid).children(recursive=True)
    twin.kill()
    psutil.wait_procs(family, timeout=10)
    assert not any(process.is_running() for process in family)
    with pytest.raises(ArmLost, match=r"joint states: none for .* allowed 3\.00"):
        arm.apply(GraspAction(displacement_m=(0.0, 0.05, 0.0)))
    assert watcher.wait_for_event(SafetyEvent.WATCHDOG).detail.startswith("joint states: none for")
    with pytest.raises(ArmLost, match="begin a new episode"):
        arm.apply(GraspAction(displacement_m=(0.0, -0.05, 0.0)))
    keeper.get()
    tool, start = arm.begin(seed=1).tool, SETTINGS.start
    assert (tool.x_m, tool.y_m, tool.z_m) == pytest.approx((start.x_m, start.y_m, start.z_m), abs=1e-3)
    arm.close()
