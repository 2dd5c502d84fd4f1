"""How far apart two cameras' views of a workspace are; expected values by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opc_ros.camera import CameraSpec, find_lens_difference, find_offset
from sim_bridge.camera import STANDARD_CAMERA, CameraShift
from sim_bridge.training.run import camera_spec

BOX = ((0.45, -0.15, 0.02), (0.75, 0.15, 0.34))


def from_above(*, size: int = 100, shift_px: float = 0.0) -> CameraSpec:
    """100 pixels per metre at size 100: y to the right, x up, the middle of the box in the middle of the image."""
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


# Turned by 90 degrees about its axis and 2 m above the base: x maps to the row, y to the column, z against the depth.
SLANTED = CameraSpec(100, 100, ((0.0, 200.0, -50.0, 100.0), (200.0, 0.0, -50.0, 100.0), (0.0, 0.0, -1.0, 2.0)))
LENS = np.array([[200.0, 0.0, 49.5], [0.0, 200.0, 49.5], [0.0, 0.0, 1.0]])


def test_a_cameras_lens_is_computed_from_its_matrix() -> None:
    np.testing.assert_allclose(SLANTED.find_lens(), [[200, 0, 50], [0, 200, 50], [0, 0, 1]], atol=1e-9)
    model = STANDARD_CAMERA.calibrate(96)
    assert find_lens_difference(camera_spec(model), model.intrinsics, 96, 96) == pytest.approx(0.0, abs=1e-7)
    # Parallel rays have no focal length.
    assert from_above().find_lens() is None


def test_a_lens_is_compared_at_the_images_size() -> None:
    assert find_lens_difference(SLANTED, LENS, 100, 100) == pytest.approx(0.0, abs=1e-9)
    twice = np.array([[400.0, 0.0, 99.5], [0.0, 400.0, 99.5], [0.0, 0.0, 1.0]])
    assert find_lens_difference(SLANTED, twice, 200, 200) == pytest.approx(0.0, abs=1e-9)
    zoomed = LENS * ((1.05,), (1.0,), (1.0,))
    assert find_lens_difference(SLANTED, zoomed, 100, 100) == pytest.approx(0.05)
    shifted = LENS + np.array([[0, 0, 3.0], [0, 0, 0], [0, 0, 0]])
    assert find_lens_difference(SLANTED, shifted, 100, 100) == pytest.approx(0.03)
    assert find_lens_difference(SLANTED, LENS, 100, 75) == math.inf
    assert find_lens_difference(SLANTED, LENS, 0, 0) == math.inf
    assert find_lens_difference(from_above(), LENS, 100, 100) == math.inf


def test_a_bumped_camera_stand_is_distinguished_from_a_calibrated_one() -> None:
    """A target 5 cm further to the side, about 0.97 m away, turns the camera by 0.04 of the 0.56 rad it sees: 7 %."""
    standard = camera_spec(STANDARD_CAMERA.calibrate(96))
    knocked = camera_spec(STANDARD_CAMERA.moved(CameraShift(target_m=(0.0, 0.05, 0.0))).calibrate(96))
    assert find_offset(standard, knocked, *BOX) == pytest.approx(0.04 / 0.56, rel=0.3)
