"""The fake arm keeps the contract of every arm, and holds its disc when it should."""

from __future__ import annotations

import pytest

from opc_ros.arms.arm import Arm, ScriptedArm
from opc_ros.arms.contract import ArmContract
from opc_ros.grasp import GraspAction


class TestScriptedArm(ArmContract):
    reach_tolerance_m = 1e-9
    turn_tolerance_rad = 1e-9

    @pytest.fixture
    def arm(self) -> Arm:
        return ScriptedArm(image_size=64)


def test_the_scripted_arm_holds_the_disc_it_closes_on() -> None:
    arm = ScriptedArm(image_size=64)
    tool = arm.begin(3).tool
    x, y = arm.disc_xy
    for _ in range(4):
        arm.apply(GraspAction(displacement_m=((x - tool.x_m) / 4, (y - tool.y_m) / 4, -0.07)))
    arm.apply(GraspAction(close_gripper=True))
    assert arm.finish()
