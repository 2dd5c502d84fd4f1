"""TwinArm keeps the contract of every arm, and stops in the middle of a motion."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from opc_ros.arms.arm import Arm
from opc_ros.arms.contract import ArmContract
from opc_ros.arms.settings import ArmSettings
from opc_ros.config import load_config
from opc_ros.errors import ArmStopped
from opc_ros.grasp import GraspAction
from sim_bridge.twin_arm import TwinArm
from sim_bridge.worlds import find_world

PANDA = Path(__file__).resolve().parents[2] / "config" / "arm_panda_twin.yaml"


class TestTwinArm(ArmContract):
    @pytest.fixture
    def arm(self) -> Iterator[Arm]:
        arm = TwinArm(find_world("train"), image_size=48)
        yield arm
        arm.close()


class TestTwinPanda(ArmContract):
    """Another arm from another file, with the same Python code."""

    @pytest.fixture
    def arm(self) -> Iterator[Arm]:
        spec = dataclasses.replace(find_world("train"), arm=load_config(PANDA, ArmSettings))
        arm = TwinArm(spec, image_size=48)
        yield arm
        arm.close()


@pytest.fixture
def arm() -> Iterator[TwinArm]:
    arm = TwinArm(find_world("train"), image_size=16)
    yield arm
    arm.close()


def test_a_stop_during_a_motion_holds_where_the_arm_is(arm: TwinArm, monkeypatch: pytest.MonkeyPatch) -> None:
    start = arm.begin(0).tool
    advance = arm.world.advance

    def advance_and_stop(seconds: float) -> None:
        advance(seconds)
        arm.stop("light curtain broken")

    monkeypatch.setattr(arm.world, "advance", advance_and_stop)
    with pytest.raises(ArmStopped, match="light curtain broken"):
        arm.apply(GraspAction(displacement_m=(0.08, 0.0, 0.0)))
    advance(1.0)
    assert arm.world.tool_state().x_m - start.x_m < 0.03


def test_the_workspace_box_gives_way_to_nothing(arm: TwinArm) -> None:
    arm.begin(0)
    motions = [arm.apply(GraspAction(displacement_m=(0.0, 0.08, 0.0), rotation_rad=0.7)) for _ in range(4)]
    assert motions[-1].clamped == (
        f"tool y is {arm.world.tool_state().y_m + 0.08:.4f} m, allowed from -0.1500 to 0.1500",
        *motions[-1].clamped[1:],
    )
    assert arm.world.tool_state().y_m == pytest.approx(0.15, abs=0.002)
    assert abs(arm.world.tool_state().yaw_rad) < 2.62


def test_what_is_sent_is_what_the_limits_left(arm: TwinArm) -> None:
    start = arm.begin(0).tool
    motion = arm.apply(GraspAction(displacement_m=(0.5, 0.0, 0.02)))
    assert motion.sent.displacement_m == (0.08, 0.0, 0.02)
    assert arm.world.tool_state().z_m - start.z_m == pytest.approx(0.02, abs=0.002)


def test_frames_are_stamped_with_simulated_time(arm: TwinArm) -> None:
    first = arm.begin(0).stamp_ns
    arm.apply(GraspAction(close_gripper=True))  # 0.1 s for the move, 0.05 s to rest, 0.25 s for the fingers
    assert arm.observe().stamp_ns - first == pytest.approx(0.4e9, abs=1e7)


def test_closing_the_fingers_on_the_floor_is_no_violation(arm: TwinArm) -> None:
    arm.begin(0)
    for _ in range(4):
        arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.08)))
    assert arm.apply(GraspAction(close_gripper=True)).clamped == ()
