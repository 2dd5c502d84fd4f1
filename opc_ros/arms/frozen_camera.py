"""Notice a camera that shows the same image again and again although the arm moves in front of it."""

from __future__ import annotations

import numpy as np

MOVED_RAD = 0.1  # so far that any camera that sees the arm sees the difference
MOVED_M = 0.02  # of the tool
REPEATS = 2  # the first one may have been taken just before


class FrozenCamera:
    """A live camera never gives the same bytes twice while something moves, however fresh its stamps are."""

    def __init__(self) -> None:
        self._image = b""
        self._joints_rad: np.ndarray | None = None  # (J,), when this image was first seen
        self._tool_m = np.zeros(3)
        self._repeats = 0  # of it, since the arm has moved

    def see(self, image: bytes, joints_rad: np.ndarray, tool_m: np.ndarray) -> str:
        """Take an image with joint angles (J,) and tool position (3,) at its stamp; gives the line to report."""
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
