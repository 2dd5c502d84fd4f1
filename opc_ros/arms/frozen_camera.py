"""Notice a camera that shows the same image again and again although the arm moves in front of it."""

from __future__ import annotations

import numpy as np

MOVED_RAD = 0.1  # so far that any camera that sees the arm sees the difference
REPEATS = 2  # the first one may have been taken just before


class FrozenCamera:
    """A live camera never gives the same bytes twice while something moves, however fresh its stamps are."""

    def __init__(self) -> None:
        self._image = b""
        self._joints_rad: np.ndarray | None = None  # (J,), when this image was first seen
        self._repeats = 0  # of it, since the arm has moved

    def see(self, image: bytes, joints_rad: np.ndarray) -> str:
        """Take an image with the joint angles at its stamp; gives the line to report, or nothing."""
        if self._joints_rad is None or image != self._image:
            self._image, self._joints_rad, self._repeats = image, joints_rad, 0
            return ""
        moved_rad = float(np.abs(joints_rad - self._joints_rad).max())
        self._repeats += moved_rad >= MOVED_RAD
        if self._repeats < REPEATS:
            return ""
        return f"camera: the same image again although a joint has turned by {np.degrees(moved_rad):.0f} deg"
