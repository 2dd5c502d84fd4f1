from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.arms.settings import ArmSettings, GripperSettings
from opc_ros.config import load_config, parse_config
from opc_ros.errors import ConfigError

CONFIG = Path(__file__).resolve().parents[2] / "config"


def test_the_file_for_a_real_arm_is_read_whole():
    settings = load_config(CONFIG / "arm.yaml", ArmSettings)
    assert (settings.namespace, settings.joint_names[6], settings.lay_out) == ("", "lbr_A7", "")
    assert settings.gripper.driver == "gripper_command"
    # A fifth of 85 deg/s, and 5 deg less than 175.
    assert settings.joint_limits().velocity_rad_s[0] == pytest.approx(0.2967, abs=1e-4)
    assert settings.joint_limits().upper_rad[6] == pytest.approx(2.9671, abs=1e-4)


def test_the_file_for_the_twin_names_the_arm_that_worlds_have_without_one():
    from sim_bridge.world import WorldSpec

    settings, built_in = load_config(CONFIG / "arm_twin.yaml", ArmSettings), WorldSpec("train").arm
    assert settings.lay_out == "lay_out"
    for name in ("model", "body", "joint_names", "tool", "workspace", "start", "gripper"):
        assert getattr(settings, name) == getattr(built_in, name), name


def test_another_arm_is_another_file():
    settings = load_config(CONFIG / "arm_panda_twin.yaml", ArmSettings)
    assert settings.kinematics().model.name == "panda"
    assert settings.joint_limits().velocity_rad_s[0] == pytest.approx(2.175 * 0.5)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"model": "ur5"}, "model: got 'ur5', expected keys with values"),
        ({"model": {"held_joints": [8]}}, "held joint 8, expected from 1 to 7"),
        ({"joint_names": ["A1"] * 7}, "expected different names"),
        ({"joint_names": ["A1"]}, "posture_deg has 7 angles, expected 1 as joint_names has"),
        ({"start": {"z_m": 0.5}}, r"start: tool z is 0\.5000 m, allowed from 0\.0200 to 0\.3400"),
        ({"motion": {"speed_fraction": 1.5}}, r"motion: speed_fraction: got 1\.5, expected from 0\.01 to 1"),
        ({"gripper": {"driver": "telepathy"}}, "got 'telepathy', expected one of 'float64'"),
        ({"gripper": {"open_m": 0.0}}, "expected open_m above closed_m"),
        ({"gripper": {"metres_per_unit": 0.0}}, "metres_per_unit is 0"),
        ({"workspace": {"low_m": [0, 0, 1], "high_m": [1, 1, 0]}}, "along z is from"),
        ({"robot": "arm 1"}, "robot 'arm 1': expected a name of letters"),
        ({"namespace": "lab/7"}, "namespace 'lab/7': expected names of letters"),
        ({"controller": ""}, "controller '': expected names"),
        ({"camera": {"topic": "camera//image"}}, "camera: topic 'camera//image': expected names"),
        ({"speed": 1.0}, "unknown key 'speed'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(document, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_config(document, ArmSettings, where="arm.yaml")


def test_a_gripper_holds_something_between_closed_and_open():
    gripper = GripperSettings(held_from_m=0.003, held_to_m=0.075)
    assert [gripper.holds(a) for a in (0.0, 0.0029, 0.003, 0.04, 0.075, 0.08)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


def test_names_below_a_namespace_of_the_driver_are_written_out_and_the_robots_own_are_not():
    settings = parse_config(
        {"namespace": "lbr", "guard": "arm_guard/status", "camera": {"topic": "/cell/camera"}}, ArmSettings, where="x"
    ).with_full_names()
    assert settings.joint_states == "/lbr/joint_states"
    assert settings.controller == "/lbr/joint_trajectory_controller"
    assert (settings.gripper.command, settings.gripper.state) == ("/lbr/gripper/command", "/lbr/gripper/joint_states")
    assert (settings.camera.topic, settings.guard, settings.lay_out) == ("/cell/camera", "arm_guard/status", "")
    assert ArmSettings().with_full_names() == ArmSettings()
