"""Judges a grasp in two ways: by the gripper's width, and by images before and after it lets go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np

from opc_ros.arms.arm import Arm, Motion
from opc_ros.grasp import GraspAction, Observation


@dataclass(frozen=True, slots=True)
class DropSettings:
    """How images are compared."""

    threshold: int = 30  # difference in a colour channel, of 255, at which a pixel counts as changed
    least_share: float = 0.0015  # share of the image that must change if something has fallen
    grow_px: int = 7  # margin around the fingers' own change, for 472 pixels; scales with the image


class DroppingArm(Arm, Protocol):
    """An arm that can show what it holds and then let go of it."""

    def drop(self) -> tuple[Observation, Observation]:
        """At the start pose: one image with the gripper as it is, and one after it has opened."""
        ...


class DropTest:
    """Compares images before and after the gripper lets go of whatever it held.

    Opening moves the fingers too: `learn` finds what changes in the image when the gripper holds nothing, and later
    comparisons ignore that region.
    """

    def __init__(self, settings: DropSettings | None = None) -> None:
        self._settings = settings or DropSettings()
        self._fingers: np.ndarray | None = None  # (H, W) bool

    @property
    def is_ready(self) -> bool:
        return self._fingers is not None

    def learn(self, closed: np.ndarray, opened: np.ndarray) -> None:
        """Learn what changes in the image when empty fingers open."""
        size = max(1, round(self._settings.grow_px * closed.shape[0] / 472))
        kernel = np.ones((2 * size + 1, 2 * size + 1), dtype=np.uint8)
        grown = cv2.dilate(self._changed(closed, opened).astype(np.uint8), kernel)
        self._fingers = np.asarray(grown, dtype=bool)

    def share(self, held: np.ndarray, dropped: np.ndarray) -> float:
        """The share of the image that changed, not counting the fingers."""
        changed = self._changed(held, dropped)
        if self._fingers is not None:
            changed &= ~self._fingers
        return float(changed.mean())

    def has_dropped(self, held: np.ndarray, dropped: np.ndarray) -> bool:
        """Whether something fell."""
        return self.share(held, dropped) >= self._settings.least_share

    def _changed(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Pixels (H, W) that differ; slightly blurred first, so that camera noise does not count."""
        first, second = (cv2.GaussianBlur(image, (5, 5), 0).astype(np.int16) for image in (before, after))
        return np.asarray(np.abs(first - second).max(axis=2) >= self._settings.threshold)


class JudgedArm:
    """An arm whose `finish` asks gripper and images; if they disagree, `verdict` is None and a person decides."""

    def __init__(self, arm: DroppingArm, test: DropTest | None = None) -> None:
        self._arm = arm
        self._test = test or DropTest()
        self.verdict: bool | None = None
        self.finding = ""  # both results, for people

    @property
    def name(self) -> str:
        return self._arm.name

    def begin(self, seed: int) -> Observation:
        seen = self._arm.begin(seed)
        if not self._test.is_ready:
            # At the start pose over the bin, there is nothing between the fingers.
            self._arm.apply(GraspAction(close_gripper=True))
            closed, opened = self._arm.drop()
            self._test.learn(closed.image, opened.image)
            seen = self._arm.begin(seed)
        return seen

    def observe(self) -> Observation:
        return self._arm.observe()

    def apply(self, action: GraspAction) -> Motion:
        return self._arm.apply(action)

    def finish(self) -> bool:
        by_width = self._arm.finish()
        held, dropped = self._arm.drop()
        by_image = self._test.has_dropped(held.image, dropped.image)
        share = self._test.share(held.image, dropped.image)
        self.verdict = by_width if by_width == by_image else None
        self.finding = (
            f"gripper width says {_word(by_width)}, images before and after letting go say {_word(by_image)} "
            f"({share:.2%} of the image changed)"
        )
        return by_width

    def stop(self, reason: str) -> None:
        self._arm.stop(reason)

    def release(self) -> None:
        self._arm.release()

    def close(self) -> None:
        self._arm.close()


def _word(is_success: bool) -> str:
    return "held" if is_success else "nothing held"
