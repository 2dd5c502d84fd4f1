"""No candidate gets an arm whose camera sees the workspace differently from the one it was trained for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy")

from opc_ros.camera import CameraSpec
from opc_ros.errors import CandidateError
from opc_ros.ros.arm_connection import ArmConnection, ArmKind
from sim_bridge.camera import STANDARD_CAMERA, CameraShift
from sim_bridge.training.run import camera_spec

TRAINED_FOR = camera_spec(STANDARD_CAMERA.calibrate(96))


def connection(folder: Path, calibration: CameraSpec | None, kind: ArmKind = "ros") -> ArmConnection:
    document: dict[str, object] = {"robot": "iiwa"}
    if calibration is not None:
        spec = dataclasses.asdict(calibration)
        document["camera"] = {"calibration": spec | {"projection": [list(row) for row in spec["projection"]]}}
    path = folder / "arm.yaml"
    path.write_text(yaml.safe_dump(document))
    return ArmConnection("iiwa", kind, str(path), 0.5, 96, lambda: 0, lambda: "", lambda: None, folder)


def test_a_camera_where_it_was_calibrated_is_taken_at_any_resolution(tmp_path: Path) -> None:
    for size in (96, 472):
        real = camera_spec(STANDARD_CAMERA.calibrate(size))
        connection(tmp_path, real).refuse_other_camera("keen", TRAINED_FOR)


def test_a_camera_elsewhere_is_refused_with_what_to_do(tmp_path: Path) -> None:
    knocked = camera_spec(STANDARD_CAMERA.moved(CameraShift(target_m=(0.0, 0.05, 0.0))).calibrate(96))
    expected = "candidate keen: expects a camera that sees the workspace 9% of .* beside that of arm iiwa, allowed 5%"
    with pytest.raises(CandidateError, match=expected):
        connection(tmp_path, knocked).refuse_other_camera("keen", TRAINED_FOR)
    away = camera_spec(dataclasses.replace(STANDARD_CAMERA, target_m=(-3.0, 0.0, 0.8)).calibrate(96))
    with pytest.raises(CandidateError, match="expects a camera that looks elsewhere than that of arm iiwa"):
        connection(tmp_path, away).refuse_other_camera("keen", TRAINED_FOR)


def test_what_is_not_known_is_not_judged(tmp_path: Path) -> None:
    knocked = camera_spec(STANDARD_CAMERA.moved(CameraShift(target_m=(0.0, 0.5, 0.0))).calibrate(96))
    connection(tmp_path, None).refuse_other_camera("keen", TRAINED_FOR)
    connection(tmp_path, knocked).refuse_other_camera("exported", None)
    connection(tmp_path, knocked, "scripted").refuse_other_camera("keen", TRAINED_FOR)
