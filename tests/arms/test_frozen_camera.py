"""A camera that repeats one image forever, however fresh its timestamps are."""

from __future__ import annotations

import numpy as np

from opc_ros.arms.frozen_camera import FrozenCamera

HOME = np.zeros(7)
TOOL = np.zeros(3)


def test_the_same_image_is_fine_while_the_arm_stands_still() -> None:
    eye = FrozenCamera()
    assert [eye.see(b"image", HOME + 0.01 * n, TOOL) for n in range(3)] == ["", "", ""]


def test_the_same_image_although_the_arm_has_moved_is_reported() -> None:
    eye = FrozenCamera()
    eye.see(b"image", HOME, TOOL)
    turned = HOME.copy()
    turned[2] = np.radians(12.0)
    assert eye.see(b"image", turned, TOOL) == ""  # may have been taken just before the arm moved
    assert eye.see(b"image", turned, TOOL) == (
        "camera: the same image again although a joint has turned by 12 deg and the tool moved by 0 mm"
    )
    assert eye.see(b"another", turned, TOOL) == ""


def test_a_slow_arm_does_not_hide_it() -> None:
    eye = FrozenCamera()
    lines = [eye.see(b"image", HOME + 0.02 * n, TOOL) for n in range(10)]
    assert lines[:6] == [""] * 6
    assert all(lines[6:])


def test_a_tool_that_moves_by_more_than_a_pixel_is_enough() -> None:
    eye = FrozenCamera()
    lines = [eye.see(b"image", HOME, np.array([0.01 * n, 0.0, 0.0])) for n in range(5)]
    assert lines[:3] == [""] * 3
    assert lines[3].endswith("the tool moved by 30 mm")
