"""Projected points agree with OpenCV's, and with what the image shows."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from sim_bridge.camera import STANDARD_CAMERA, CameraMount
from sim_bridge.world import World
from sim_bridge.worlds import find_world

POINTS = np.array([[0.6, 0.0, 0.0], [0.5, 0.1, 0.02], [0.7, -0.12, 0.1]])


@pytest.mark.parametrize("mount", [STANDARD_CAMERA, find_world("pseudo_real").camera])
def test_projects_as_opencv_does(mount: CameraMount) -> None:
    camera = mount.calibrate(472)
    rotation, _ = cv2.Rodrigues(camera.camera_from_base[:3, :3])
    distortion = np.array([*mount.distortion, 0.0, 0.0])
    expected, _ = cv2.projectPoints(POINTS, rotation, camera.camera_from_base[:3, 3], camera.intrinsics, distortion)
    np.testing.assert_allclose(camera.project(POINTS), expected[:, 0], atol=1e-6)


def test_the_point_looked_at_is_in_the_middle() -> None:
    np.testing.assert_allclose(
        STANDARD_CAMERA.calibrate(96).project(np.array([STANDARD_CAMERA.target_m])), [[47.5, 47.5]]
    )


@pytest.mark.parametrize(("world", "least", "most"), [("pseudo_real", 0.7, 1.1), ("second_pseudo_real", 0.5, 0.9)])
def test_a_pseudo_real_camera_is_off_by_what_a_calibration_leaves(world: str, least: float, most: float) -> None:
    over_the_tray = np.stack(np.meshgrid(np.linspace(0.48, 0.72, 7), np.linspace(-0.12, 0.12, 7), [0.02, 0.1, 0.2]), -1)
    points = over_the_tray.reshape(-1, 3)
    seen = find_world(world).camera.calibrate(96).project(points)
    off = np.linalg.norm(seen - STANDARD_CAMERA.calibrate(96).project(points), axis=1)
    assert least < off.mean() < most
    assert off.max() < 2.2


def test_a_rough_world_looks_through_its_shifted_camera() -> None:
    with World(find_world("train_rough"), image_size=64) as world:
        world.lay_out(3)
        shift = world._variation.camera_shift
        through_shifted = world._images._view
    moved = STANDARD_CAMERA.moved(shift).calibrate(64)
    flip = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL looks along -z with y up
    np.testing.assert_allclose(np.reshape(through_shifted, (4, 4)).T, flip @ moved.camera_from_base)
    assert np.abs(np.array(shift.eye_m)).max() > 1e-4


@pytest.mark.parametrize("name", ["train", "pseudo_real"])
def test_fingers_are_seen_where_they_are_projected(name: str) -> None:
    with World(find_world(name), image_size=472) as world:
        world.lay_out(1)
        tool = world.tool_state()
        # Points 1.5 cm up the middle of each finger, and one between them.
        across = np.array([-np.sin(tool.yaw_rad), np.cos(tool.yaw_rad), 0.0])
        tip = np.array([tool.x_m, tool.y_m, tool.z_m + 0.015])
        columns_rows = world.camera.project(np.stack([tip + 0.046 * across, tip - 0.046 * across, tip]))
        image = world.render().astype(int)
    left, right, between = (image[round(row), round(column)].mean() for column, row in columns_rows)
    assert max(left, right) < 75
    assert between > max(left, right) + 15
