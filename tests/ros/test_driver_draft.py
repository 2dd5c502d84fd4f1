"""What a driver's names turn into in an arm file."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")

from opc_ros.arms.arm_file import DriverDraft
from opc_ros.ros.arm_survey import ArmSurvey
from opc_ros.ros.driver_draft import draft_driver

URDF = tuple(f"A{number}" for number in range(1, 8))
PLAIN = DriverDraft(namespace="lbr")


def test_names_with_a_prefix_are_put_into_the_order_of_the_urdf() -> None:
    joints = (*(f"lbr_A{number}" for number in (7, 1, 2, 3, 4, 5, 6)), "left_finger_joint")
    survey = ArmSurvey(
        joint_states={"/lbr/joint_states": joints},
        controllers=(("/lbr/joint_trajectory_controller", "action"),),
        grippers=(("/lbr/hand/gripper_cmd", "parallel_gripper_command"),),
        cameras=(("/lbr/camera/image/compressed", True),),
    )
    driver, seen = draft_driver(survey, PLAIN, URDF)
    assert driver == DriverDraft(
        namespace="lbr",
        joint_names=tuple(f"lbr_A{number}" for number in range(1, 8)),
        joint_states="joint_states",
        controller="joint_trajectory_controller",
        controller_by="action",
        gripper_driver="parallel_gripper_command",
        gripper_command="hand/gripper_cmd",
        gripper_joint="left_finger_joint",
        camera="camera/image/compressed",
        is_camera_compressed=True,
    )
    assert [line.split(":")[0] for line in seen] == ["seen"] * 4


def test_what_does_not_answer_keeps_its_default_and_is_named() -> None:
    driver, seen = draft_driver(ArmSurvey(), PLAIN, URDF)
    assert driver == PLAIN
    assert [line.split(":")[0] for line in seen] == ["not seen"] * 4
