"""Arm files drafted from URDFs, checked by code that does not know how they were found."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from opc_ros.arms.draft import draft_arm, suggest_flange
from opc_ros.arms.kinematics import ToolMount
from opc_ros.arms.limits import WorkspaceBox
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.workspace_check import check_workspace
from opc_ros.cli.main import main
from opc_ros.config import load_config
from opc_ros.errors import ConfigError

IIWA = "opc_ros:arms/urdf/lbr_iiwa_14_r820.urdf"
PANDA = "pybullet_data:franka_panda/panda.urdf"
XARM = "pybullet_data:xarm/xarm6_robot.urdf"


@pytest.mark.parametrize(("urdf", "flange"), [(IIWA, "flange"), (PANDA, "panda_link8"), (XARM, "link6")])
def test_the_flange_is_the_end_of_the_arm_and_no_finger(urdf: str, flange: str) -> None:
    assert suggest_flange(urdf) == flange


@pytest.mark.parametrize(("urdf", "yaw_deg"), [(IIWA, 0), (PANDA, 135), (XARM, 0)])
def test_a_new_arm_file_loads_and_its_whole_workspace_is_reached(
    tmp_path: Path, urdf: str, yaw_deg: int, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "arm2.yaml"
    words = ["arm", "new", "arm2", "--urdf", urdf, "--tool-yaw-deg", str(yaw_deg), "--offline", "--out", str(out)]
    assert main(words) == 0
    settings = load_config(out, ArmSettings)
    assert (settings.robot, settings.namespace, settings.tool.z_m) == ("arm2", "arm2", 0.145)
    assert settings.tool.yaw_rad == pytest.approx(math.radians(yaw_deg), abs=1e-4)
    assert check_workspace(settings).unreached == ()
    assert main(["arm", "check", str(out)]) == 0
    assert "tool straight down" in capsys.readouterr().out


def test_the_draft_of_the_iiwa_is_near_the_file_people_tuned() -> None:
    draft = draft_arm(IIWA, "flange", ToolMount(z_m=0.145))
    assert draft.posture_deg == pytest.approx((0, 35, 0, -85, 0, 60, 0), abs=12)
    assert draft.workspace.low_m == pytest.approx((0.45, -0.15, 0.02), abs=0.05)
    assert draft.workspace.high_m == pytest.approx((0.75, 0.15, 0.34), abs=0.06)


def test_a_gripper_turned_against_the_flange_is_guessed() -> None:
    with pytest.raises(ConfigError, match=r"is the gripper turned against the flange.* --tool-yaw-deg 135 would do"):
        draft_arm(PANDA, "panda_link8", ToolMount(z_m=0.145))


def test_a_box_out_of_reach_is_refused() -> None:
    far = WorkspaceBox((2.0, -0.1, 0.02), (2.2, 0.1, 0.2))
    with pytest.raises(ConfigError, match=r"no posture was found .* give another workspace"):
        draft_arm(IIWA, "flange", ToolMount(z_m=0.145), box=far)


def test_a_workspace_beyond_the_arm_is_named_pose_by_pose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "arm.yaml"
    path.write_text("workspace: {low_m: [0.45, -0.15, 0.02], high_m: [1.4, 0.15, 0.34]}\n")
    assert main(["arm", "check", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert all("tool at (" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<robot name='r'><link name='a'/><link name='b'/></robot>", "2 links have no parent, expected one base"),
        ("<robot name='r'><link name='a'/></robot>", "no joint turns, expected a serial arm"),
        ("no xml", "not XML"),
    ],
)
def test_urdfs_that_are_no_arm_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "odd.urdf"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        suggest_flange(str(path))


def test_an_existing_file_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "arm.yaml"
    path.write_text("robot: arm1\n")
    assert main(["arm", "new", "arm1", "--urdf", IIWA, "--offline", "--out", str(path)]) == 1
    assert "exists, expected a new file" in capsys.readouterr().err
    assert path.read_text() == "robot: arm1\n"
