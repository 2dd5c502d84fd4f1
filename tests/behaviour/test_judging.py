from __future__ import annotations

import numpy as np
import pytest

from opc_ros.arms.arm import Motion
from opc_ros.behaviour.judging import DropTest, JudgedArm
from opc_ros.grasp import GraspAction, Observation, ToolState

TOOL = ToolState(0.6, 0.0, 0.22, 0.0, 0.08)


def draw(*, fingers_px: int, object_at: tuple[int, int] | None, seed: int = 0) -> np.ndarray:
    """A grey bin with noise, two dark fingers this far apart, and a bright object of 8 x 8 pixels."""
    image = np.full((100, 100, 3), 120, dtype=np.int16)
    image += np.random.default_rng(seed).normal(0.0, 4.0, image.shape).astype(np.int16)
    image[10:30, 48 - fingers_px : 50 - fingers_px] = 20
    image[10:30, 50 + fingers_px : 52 + fingers_px] = 20
    if object_at is not None:
        row, column = object_at
        image[row : row + 8, column : column + 8] = (230, 60, 40)
    return np.clip(image, 0, 255).astype(np.uint8)


CLOSED, OPEN = draw(fingers_px=1, object_at=None, seed=1), draw(fingers_px=8, object_at=None, seed=2)
IN_HAND = draw(fingers_px=4, object_at=(28, 46), seed=3)
DROPPED = draw(fingers_px=8, object_at=(70, 44), seed=4)


def test_fingers_that_open_on_nothing_drop_nothing():
    test = DropTest()
    test.learn(CLOSED, OPEN)
    assert not test.has_dropped(CLOSED, draw(fingers_px=8, object_at=None, seed=9))


def test_what_falls_from_the_hand_into_the_bin_is_seen():
    test = DropTest()
    test.learn(CLOSED, OPEN)
    # The object's 64 pixels of 10,000 vanish in one place and appear in another; the blur adds a pixel around them.
    assert 2 * 64 / 10_000 <= test.share(IN_HAND, DROPPED) <= 2 * 100 / 10_000
    assert test.has_dropped(IN_HAND, DROPPED)


def test_an_object_that_lies_still_does_not_count():
    test = DropTest()
    test.learn(CLOSED, OPEN)
    lying = [draw(fingers_px=gap, object_at=(70, 20), seed=gap) for gap in (1, 8)]
    assert not test.has_dropped(*lying)


class FakeArm:
    """Reports the gripper state it is given, and shows the images it is given."""

    name = "fake"

    def __init__(self, held: bool, images: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self._held, self._images = held, images

    def begin(self, seed: int) -> Observation:
        return Observation(stamp_ns=0, image=OPEN, tool=TOOL)

    observe = begin

    def apply(self, action: GraspAction) -> Motion:
        return Motion(sent=action)

    def finish(self) -> bool:
        return self._held

    def drop(self) -> tuple[Observation, Observation]:
        first, second = self._images.pop(0)
        return Observation(0, first, TOOL), Observation(1, second, TOOL)

    def stop(self, reason: str) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("by_width", "images", "verdict"),
    [
        (True, (IN_HAND, DROPPED), True),
        (False, (CLOSED, draw(fingers_px=8, object_at=None, seed=7)), False),
        (True, (CLOSED, draw(fingers_px=8, object_at=None, seed=7)), None),
        (False, (IN_HAND, DROPPED), None),
    ],
)
def test_a_person_decides_where_gripper_and_images_disagree(by_width, images, verdict):
    arm = JudgedArm(FakeArm(by_width, [(CLOSED, OPEN), images]))
    arm.begin(0)
    assert arm.finish() is by_width
    assert arm.verdict is verdict
    assert "gripper width says" in arm.finding
