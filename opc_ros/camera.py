"""Calibrated cameras, and how far apart two of them see the same places."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

Row = tuple[float, float, float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class CameraSpec:
    """A camera by its 3x4 matrix: base frame, metres, to pixels counted from the image's top left corner."""

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
        """Where points (N, 3) of the base frame are, as shares of width and height (N, 2); nan behind the camera."""
        matrix = np.array(self.projection)
        seen = points @ matrix[:, :3].T + matrix[:, 3]
        depth = np.where(seen[:, 2] > 0, seen[:, 2], np.nan)
        return np.asarray((seen[:, :2] / depth[:, None] + 0.5) / (self.width, self.height))


def find_offset(one: CameraSpec, other: CameraSpec, low_m: Point, high_m: Point) -> float:
    """How far apart two cameras see the corners and the middle of a box, on average, as a share of the image's width.

    Places beside the image count too: no camera need see all of the box. Infinite where one looks away from it.
    """
    sides = [(low, (low + high) / 2, high) for low, high in zip(low_m, high_m, strict=True)]
    points = np.array(list(itertools.product(*sides)))
    apart = np.linalg.norm((one.see(points) - other.see(points)) * (1.0, one.height / one.width), axis=1)
    return float(apart.mean()) if np.isfinite(apart).all() else math.inf
