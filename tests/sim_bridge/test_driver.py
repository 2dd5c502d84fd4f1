from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from opc_ros.arms.kinematics import ToolPose
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.safety import StopSwitch
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import plan_hold, plan_line
from opc_ros.errors import ArmStopped, OutOfReach
from sim_bridge.driver import DriverState, TwinDriver
from sim_bridge.world import World
from sim_bridge.worlds import find_world

ARM = ArmSettings()
HOME, KINEMATICS = ARM.start.to_pose(), ARM.kinematics()
LIMITS = JointLimits(ARM.load_model(), speed_fraction=0.5)


class Rig:
    """A driver of a real world, with a clock that only moves when told to."""

    def __init__(self, world: World) -> None:
        self.seconds = 0.0
        self.world = world
        self.switch = StopSwitch("iiwa")
        world.lay_out(0)
        self.driver = TwinDriver(world, self.switch, command_timeout_s=0.5, now=lambda: self.seconds)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self.driver.advance(seconds)

    def go(self, dy_m: float) -> float:
        start = self.world.joint_positions_rad()
        goal = ToolPose(HOME.x_m, HOME.y_m + dy_m, HOME.z_m, HOME.yaw_rad)
        trajectory = plan_line(KINEMATICS, LIMITS, start, goal, tool_speed_m_s=0.1)
        self.driver.follow(trajectory)
        return trajectory.duration_s


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(find_world("train"), image_size=32) as world:
        yield world


@pytest.fixture
def rig(world: World) -> Rig:
    return Rig(world)


def test_a_trajectory_is_followed_to_its_end(rig: Rig):
    duration_s = rig.go(0.08)
    assert rig.driver.state is DriverState.MOVING
    for _ in range(int(duration_s / 0.1) + 3):
        rig.driver.beat()
        rig.pass_time(0.1)
    assert rig.driver.state is DriverState.IDLE
    assert rig.world.tool_state().y_m == pytest.approx(0.08, abs=5e-4)
    assert rig.driver.look_after_commander() == ""


def test_silence_holds_the_arm_in_mid_motion_and_is_reported_once(rig: Rig):
    rig.go(0.08)
    rig.pass_time(0.6)
    assert rig.driver.look_after_commander() == (
        "commands and heartbeats: none for 0.60 s, allowed 0.50; holding in mid motion"
    )
    assert rig.driver.look_after_commander() == ""
    assert rig.driver.state is DriverState.HOLDING
    rig.pass_time(0.3)
    held = rig.world.joint_positions_rad()
    rig.pass_time(1.0)
    assert rig.world.joint_positions_rad() == pytest.approx(held, abs=1e-5)
    assert 0.005 < rig.world.tool_state().y_m < 0.075


def test_a_heartbeat_after_silence_frees_the_arm_but_does_not_resume_its_motion(rig: Rig):
    rig.go(0.08)
    rig.pass_time(0.6)
    rig.driver.look_after_commander()
    rig.driver.beat()
    assert (rig.driver.state, rig.driver.reason) == (DriverState.IDLE, "")
    held = rig.world.tool_state().y_m
    rig.pass_time(0.4)
    assert rig.world.tool_state().y_m == pytest.approx(held, abs=5e-3)
    rig.go(0.02)
    assert rig.driver.state is DriverState.MOVING


def test_no_commander_is_missed_before_the_first_command_or_after_a_goodbye(rig: Rig):
    rig.pass_time(2.0)
    assert rig.driver.look_after_commander() == ""
    rig.go(0.08)
    rig.driver.say_goodbye()
    assert rig.driver.state is DriverState.IDLE
    rig.pass_time(2.0)
    assert rig.driver.look_after_commander() == ""


def test_a_stopped_arm_refuses_motion_and_grip_but_not_a_hold(rig: Rig):
    rig.switch.press("gate opened", stamp_ns=1)
    assert (rig.driver.state, rig.driver.reason) == (DriverState.STOPPED, "gate opened")
    rig.driver.follow(plan_hold(rig.world.joint_positions_rad()))
    away = rig.world.joint_positions_rad() + 0.3
    for command in (
        lambda: rig.driver.follow(plan_hold(away)),
        lambda: rig.driver.grip(0.0),
        lambda: rig.driver.lay_out(1),
    ):
        with pytest.raises(ArmStopped, match="gate opened"):
            command()
    rig.pass_time(0.2)
    assert rig.world.tool_state().aperture_m == pytest.approx(0.08, abs=1e-3)


def test_a_command_that_is_no_number_is_refused(rig: Rig):
    with pytest.raises(OutOfReach, match="not all finite"):
        rig.driver.follow(plan_hold(np.full(7, np.nan)))
    with pytest.raises(OutOfReach, match="gripper command is nan"):
        rig.driver.grip(float("nan"))


def test_a_layout_puts_the_arm_to_its_start_and_forgets_its_motion(rig: Rig):
    rig.go(0.08)
    rig.pass_time(0.3)
    rig.driver.lay_out(5)
    rig.pass_time(0.3)
    tool = rig.world.tool_state()
    assert (tool.x_m, tool.y_m, tool.z_m) == pytest.approx((HOME.x_m, HOME.y_m, HOME.z_m), abs=1e-3)
