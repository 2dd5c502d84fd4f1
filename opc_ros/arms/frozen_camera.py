"""Detects a camera that repeats the same image although the arm moves in front of it."""

from __future__ import annotations

import numpy as np

MOVED_RAD = 0.1  # enough for any camera that sees the arm to see a difference
MOVED_M = 0.02  # of the tool
REPEATS = 2  # the first repeat may have been taken just before the motion


class FrozenCamera:
    """A live camera never sends the same bytes twice while something moves, however fresh its timestamps are."""

    def __init__(self) -> None:
        self._image = b""
        self._joints_rad: np.ndarray | None = None  # (J,), when this image was first seen
        self._tool_m = np.zeros(3)
        self._repeats = 0  # of this image since the arm moved

    def see(self, image: bytes, joints_rad: np.ndarray, tool_m: np.ndarray) -> str:
        """Take an image with the joint angles (J,) and tool position (3,) at its timestamp.

        Returns the line to report, empty if all is well.
        """
        if self._joints_rad is None or image != self._image:
            self._image, self._joints_rad, self._tool_m, self._repeats = image, joints_rad, tool_m, 0
            return ""
        turned_rad = float(np.abs(joints_rad - self._joints_rad).max())
        moved_m = float(np.linalg.norm(tool_m - self._tool_m))
        self._repeats += turned_rad >= MOVED_RAD or moved_m >= MOVED_M
        if self._repeats < REPEATS:
            return ""
        how = f"a joint has turned by {np.degrees(turned_rad):.0f} deg and the tool moved by {1e3 * moved_m:.0f} mm"
        return f"camera: the same image again although {how}"
