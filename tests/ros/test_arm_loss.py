"""Twin or commander killed in mid-episode: the other one holds, reports it, and works again with a new partner."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import psutil
import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus, SafetyEvent

from opc_ros.errors import ArmLost
from opc_ros.grasp import GraspAction
from opc_ros.ros.ros_arm import RosArm
from tests.domains import own_domain
from tests.ros.twin_rig import SETTINGS, Commander, TwinProcess, Watcher

pytestmark = pytest.mark.ros
TIMEOUT_S = 5.0


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    with own_domain() as domain:
        yield domain


class TwinKeeper:
    """Starts a twin if one is needed and none is alive."""

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


def test_a_killed_commander_leaves_the_twin_holding_in_mid_motion(keeper: TwinKeeper, watcher: Watcher):
    keeper.get()
    with Commander() as commander:
        commander.move(watcher)
        commander.kill()
    status = watcher.wait_for_state(RobotStatus.HOLDING)
    assert status.reason.startswith("commands and heartbeats: none for")
    watcher.wait_for_event(SafetyEvent.WATCHDOG, "holding in mid motion")
    count = len(watcher.joints)
    watcher.wait_until(lambda: len(watcher.joints) > count + 20)
    assert max(map(abs, watcher.joints[-1].velocity)) < 1e-3
    arm = RosArm(SETTINGS)
    arm.begin(seed=2)
    watcher.wait_for_state(RobotStatus.IDLE)
    arm.close()


def test_a_killed_twin_is_reported_and_the_next_one_starts_fresh(keeper: TwinKeeper, watcher: Watcher):
    twin = keeper.get()
    arm = RosArm(dataclasses.replace(SETTINGS, measurement_timeout_s=TIMEOUT_S))
    arm.begin(seed=1)
    arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
    family = psutil.Process(twin.child.pid).children(recursive=True)
    twin.kill()
    psutil.wait_procs(family, timeout=40)
    assert not any(process.is_running() for process in family)
    with pytest.raises(ArmLost, match=r"joint states: none for .* allowed 5\.00"):
        arm.apply(GraspAction(displacement_m=(0.0, 0.05, 0.0)))
    assert watcher.wait_for_event(SafetyEvent.WATCHDOG).detail.startswith("joint states: none for")
    with pytest.raises(ArmLost, match="begin a new episode"):
        arm.apply(GraspAction(displacement_m=(0.0, -0.05, 0.0)))
    keeper.get()
    tool, start = arm.begin(seed=1).tool, SETTINGS.start
    assert (tool.x_m, tool.y_m, tool.z_m) == pytest.approx((start.x_m, start.y_m, start.z_m), abs=1e-3)
    arm.close()
