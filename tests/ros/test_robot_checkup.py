"""`opc doctor --robot` on a twin behind driver topics, and where nobody answers."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable

import pytest

pytest.importorskip("rclpy")

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.checks import SystemCheck
from opc_ros.ros.robot_checkup import check_robot
from sim_bridge.training.run import camera_spec
from sim_bridge.worlds import find_world
from tests.domains import own_domain
from tests.ros.twin_rig import PATIENCE_S, ROBOT, SETTINGS, TwinProcess

pytestmark = pytest.mark.ros


def look(arm: ArmSettings, domain: int) -> dict[str, SystemCheck]:
    return {check.name: check for check in check_robot(ROBOT, arm, arm_domain=domain, lab_domain=domain, wait_s=2.0)}


def look_until(
    arm: ArmSettings, domain: int, is_enough: Callable[[dict[str, SystemCheck]], bool]
) -> dict[str, SystemCheck]:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_enough(found := look(arm, domain)):
        assert time.monotonic() < deadline_s, found
    return found


def test_a_running_arm_is_described_part_by_part_and_wrong_names_are_found() -> None:
    with own_domain() as domain:
        twin = TwinProcess()
        try:
            parts = ("driver", "camera", "gripper", "controller")
            found = look_until(SETTINGS, domain, lambda seen: all(seen[part].status == "ok" for part in parts))
            assert {name: check.status for name, check in found.items()} == {
                "driver": "ok",
                "limits": "ok",
                "tool": found["tool"].status,  # parked beside its workspace or not
                "controller": "ok",
                "gripper": "ok",
                "camera": "ok",
                "clock": found["clock"].status,  # a twin faster than real time runs ahead of the wall clock
                "guard": "missing",
                "gateway": "optional",
            }
            assert "64x64" in found["camera"].detail
            assert "mm open" in found["gripper"].detail
            own = camera_spec(find_world("train").camera.calibrate(64))
            zoomed = camera_spec(dataclasses.replace(find_world("train").camera, view_angle_rad=0.7).calibrate(64))
            for calibration, status in ((own, "ok"), (zoomed, "missing")):
                camera = dataclasses.replace(SETTINGS.camera, calibration=calibration)
                arm = dataclasses.replace(SETTINGS, camera=camera)
                seen = look_until(arm, domain, lambda seen: seen["calibration"].status != "optional")
                assert seen["calibration"].status == status, seen["calibration"].detail
            assert re.search(r"at 64x64, the arm file's .* at 64x64: 2\d\.\d% off", seen["calibration"].detail)
            wrong = dataclasses.replace(SETTINGS, joint_names=tuple(f"J{number}" for number in range(1, 8)))
            seen = look_until(wrong, domain, lambda seen: "joints" in seen)
            assert "the driver names A1" in seen["joints"].detail
        finally:
            twin.stop()


def test_where_nobody_answers_each_part_says_what_to_do() -> None:
    with own_domain() as domain:
        found = look(SETTINGS, domain)
    assert {name for name, check in found.items() if check.status == "missing"} == {
        "driver",
        "controller",
        "gripper",
        "camera",
        "clock",
        "guard",
    }
    assert all(check.remedy for check in found.values())
    assert "nobody publishes it" in found["driver"].detail
