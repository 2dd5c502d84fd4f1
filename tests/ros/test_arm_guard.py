"""The guard beside a driver without heartbeats, as real ones are: it holds the arm, and without a guard none moves."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus, SafetyEvent
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.trajectory import plan_joints
from opc_ros.errors import ArmLost
from opc_ros.grasp import GraspAction
from opc_ros.ros.joint_messages import trajectory_to_msg
from opc_ros.ros.ros_arm import RosArm
from tests.domains import own_domain
from tests.ros.twin_rig import (
    KINEMATICS,
    PATIENCE_S,
    ROBOT,
    ROOT,
    SETTINGS,
    Commander,
    TwinProcess,
    Watcher,
)

pytestmark = pytest.mark.ros
TIMEOUT_S = 4.0
GUARDED = dataclasses.replace(SETTINGS, guard="arm_guard/status")


@pytest.fixture(scope="module")
def twin() -> Iterator[TwinProcess]:
    with own_domain():
        # Such long timeouts that it never holds by itself.
        process = TwinProcess(real_time_factor=1.0, command_timeout_s=60.0)
        yield process
        assert process.stop() == 0


@pytest.fixture
def watcher(twin: TwinProcess) -> Iterator[Watcher]:
    watcher = Watcher()
    watcher.wait_until(lambda: bool(watcher.joints) and bool(watcher.statuses))
    yield watcher
    watcher.close()


class GuardProcess:
    """`python -m opc_ros.ros.arm_guard_node`, so patient that a busy machine does not look like a dead commander."""

    def __init__(self) -> None:
        words = ["--ros-args", "-r", f"__ns:=/{ROBOT}", "-p", "arm_config:=arm_twin.yaml"]
        for name in ("heartbeat_timeout_s", "measurement_timeout_s", "hold_age_s", "stamp_tolerance_s"):
            words += ["-p", f"{name}:={TIMEOUT_S}"]
        self._child = subprocess.Popen([sys.executable, "-m", "opc_ros.ros.arm_guard_node", *words], cwd=ROOT)

    def end(self) -> int:
        self._child.terminate()
        try:
            return self._child.wait(timeout=PATIENCE_S)
        finally:
            self._child.kill()


@pytest.fixture
def guard(watcher: Watcher) -> Iterator[GuardProcess]:
    process = GuardProcess()
    yield process
    assert process.end() == 0


def test_it_says_when_it_hears_a_commander_and_holds_the_arm_once_that_is_killed(guard: GuardProcess, watcher: Watcher):
    assert watcher.wait_for_guard(RobotStatus.IDLE).reason == "heartbeats: none yet"
    with Commander() as commander:
        commander.move(watcher)
        watcher.wait_for_guard(RobotStatus.RUNNING)
        commander.kill()
    assert watcher.wait_for_guard(RobotStatus.HOLDING).reason.startswith("heartbeats: none for")
    event = watcher.wait_for_event(SafetyEvent.WATCHDOG, "heartbeats: none for")
    assert event.detail.endswith("allowed 4.00; holding")
    watcher.wait_for_rest()
    assert 0.0 < watcher.tool_y_m() < 0.075


def test_an_arm_that_moves_though_nobody_is_heard_is_held(guard: GuardProcess, watcher: Watcher):
    watcher.wait_for_guard(RobotStatus.IDLE)
    publisher = watcher.node.create_publisher(JointTrajectory, "joint_trajectory_controller/joint_trajectory", 10)
    watcher.wait_until(lambda: publisher.get_subscription_count() > 0)
    start_rad = np.array(watcher.joints[-1].position)
    away_rad = start_rad.copy()
    away_rad[0] = start_rad[0] - 1.0
    limits = dataclasses.replace(SETTINGS.motion, speed_fraction=0.05)
    slow = dataclasses.replace(SETTINGS, motion=limits).joint_limits()
    # A rad at a twentieth of 85 deg/s takes 13 s.
    publisher.publish(trajectory_to_msg(plan_joints(slow, start_rad, away_rad), SETTINGS.joint_names))
    watcher.wait_for_event(SafetyEvent.WATCHDOG, "the arm moves and no heartbeats are heard; holding")
    watcher.wait_for_rest()
    assert abs(watcher.joints[-1].position[0] - start_rad[0]) == pytest.approx(0.3, abs=0.29)


def test_an_arm_that_is_to_be_guarded_moves_only_while_its_guard_hears_it(watcher: Watcher):
    arm = RosArm(dataclasses.replace(GUARDED, connect_timeout_s=2.0))
    with pytest.raises(ArmLost, match="no guard on arm_guard/status that hears us"):
        arm.begin(seed=1)
    arm.close()
    guard = GuardProcess()
    arm = RosArm(GUARDED)
    try:
        tool = arm.begin(seed=1).tool
        assert tool.y_m == pytest.approx(KINEMATICS.locate_tool(np.array(watcher.joints[-1].position)).y_m, abs=1e-3)
    finally:
        assert guard.end() == 0
    with pytest.raises(ArmLost, match="word of the arm's guard: none for"):
        creep(arm)
    arm.close()


def creep(arm: RosArm) -> None:
    """A millimetre at a time, until something stops it."""
    while True:
        arm.apply(GraspAction(displacement_m=(0.0, 0.001, 0.0)))
