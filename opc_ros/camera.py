"""Calibrated cameras, and how differently two of them see the same places."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

Row = tuple[float, float, float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class CameraSpec:
    """A camera by its 3x4 matrix, from metres in the base frame to pixels counted from the image's top left corner."""

    width: int
    height: int
    projection: tuple[Row, Row, Row]

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"image is {self.width}x{self.height}, expected at least 1x1")
        if not all(math.isfinite(value) for row in self.projection for value in row):
            raise ValueError("projection has a number that is not finite")
        if not any(self.projection[2]):
            raise ValueError("projection's third row is zero, so no point has a place in the image")

    def see(self, points: np.ndarray) -> np.ndarray:
        """Project points (N, 3) of the base frame to fractions of width and height (N, 2); nan behind the camera."""
        matrix = np.array(self.projection)
        seen = points @ matrix[:, :3].T + matrix[:, 3]
        depth = np.where(seen[:, 2] > 0, seen[:, 2], np.nan)
        return np.asarray((seen[:, :2] / depth[:, None] + 0.5) / (self.width, self.height))

    def find_lens(self) -> np.ndarray | None:  # (3, 3)
        """Focal lengths and centre in pixels from the corner; None if the matrix is not that of a pinhole camera."""
        turned = np.array(self.projection)[:, :3]
        if np.linalg.matrix_rank(turned) < 3:
            return None
        # An upper triangular matrix times a rotation; numpy's QR has the opposite order.
        triangle = np.linalg.qr(turned[::-1].T)[1].T[::-1, ::-1]
        lens = triangle * np.sign(np.diag(triangle))
        return np.asarray(lens / lens[2, 2])


def find_lens_difference(camera: CameraSpec, lens: np.ndarray, width: int, height: int) -> float:
    """How far a lens (3, 3) for images of this size is from a camera's own, relative to focal length or image width.

    The lens is in ROS's convention, with its centre counted from the middle of the first pixel. Images may be scaled;
    the result is infinite if they are cropped, or if the camera's matrix is not that of a pinhole camera.
    """
    own = camera.find_lens()
    if own is None or not width or camera.width * height != camera.height * width:
        return math.inf
    scale = camera.width / width
    focal = np.array((lens[0, 0], lens[1, 1])) * scale
    centre = (np.array((lens[0, 2], lens[1, 2])) + 0.5) * scale
    off_focal = np.abs(focal / (own[0, 0], own[1, 1]) - 1).max()
    off_centre = np.abs(centre - (own[0, 2], own[1, 2])).max() / camera.width
    return float(max(off_focal, off_centre))


def find_offset(one: CameraSpec, other: CameraSpec, low_m: Point, high_m: Point) -> float:
    """Mean distance between two cameras' views of the corners and centre of a box, relative to the image width.

    Points outside the image count too, because no camera has to see the whole box. Infinite if a camera looks away from
    it.
    """
    sides = [(low, (low + high) / 2, high) for low, high in zip(low_m, high_m, strict=True)]
    points = np.array(list(itertools.product(*sides)))
    apart = np.linalg.norm((one.see(points) - other.see(points)) * (1.0, one.height / one.width), axis=1)
    return float(apart.mean()) if np.isfinite(apart).all() else math.inf
