"""How far apart two cameras see a workspace; expected values by hand."""

from __future__ import annotations

import math

import pytest

from opc_ros.camera import CameraSpec, find_offset
from sim_bridge.camera import STANDARD_CAMERA, CameraShift
from sim_bridge.training.run import camera_spec

BOX = ((0.45, -0.15, 0.02), (0.75, 0.15, 0.34))


def from_above(*, size: int = 100, shift_px: float = 0.0) -> CameraSpec:
    """100 pixels a metre at size 100: y to the right, x up, the middle of the box in the middle of the image."""
    s = size / 100
    middle = (size - 1) / 2
    return CameraSpec(
        size, size, ((0.0, 100 * s, 0.0, middle + shift_px), (-100 * s, 0.0, 0.0, middle + 60 * s), (0, 0, 0, 1.0))
    )


def test_the_same_camera_is_nowhere_off_whatever_its_resolution() -> None:
    assert find_offset(from_above(), from_above(), *BOX) == 0.0
    assert find_offset(from_above(), from_above(size=400), *BOX) == pytest.approx(0.0, abs=1e-12)


def test_an_offset_is_a_share_of_the_images_width() -> None:
    assert find_offset(from_above(), from_above(shift_px=10.0), *BOX) == pytest.approx(0.1)
    assert find_offset(from_above(), from_above(size=400, shift_px=10.0), *BOX) == pytest.approx(0.025)


def test_a_camera_that_looks_away_is_out_of_reach() -> None:
    behind = CameraSpec(100, 100, ((0.0, 100, 0.0, 50), (-100, 0, 0, 110), (0, 0, 0, -1.0)))
    assert find_offset(from_above(), behind, *BOX) == math.inf


def test_a_knocked_stand_is_told_from_a_calibrated_one() -> None:
    """A target 5 cm further to the side, about 0.97 m away, turns the camera by 0.04 of the 0.56 rad it sees: 7 %."""
    standard = camera_spec(STANDARD_CAMERA.calibrate(96))
    knocked = camera_spec(STANDARD_CAMERA.moved(CameraShift(target_m=(0.0, 0.05, 0.0))).calibrate(96))
    assert find_offset(standard, knocked, *BOX) == pytest.approx(0.04 / 0.56, rel=0.3)
