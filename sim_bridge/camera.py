"""Pinhole camera with a little lens distortion: where points of the base frame appear in the image."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class CameraModel:
    """A calibrated camera."""

    intrinsics: np.ndarray  # (3, 3)
    camera_from_base: np.ndarray  # (4, 4); camera axes: x right, y down, z into the image
    size: int  # pixels, square
    distortion: tuple[float, float] = (0.0, 0.0)  # radial k1, k2, as in OpenCV

    def project(self, points_base: np.ndarray) -> np.ndarray:
        """Pixels (N, 2), column then row, of points (N, 3) in the base frame, in metres."""
        points = np.atleast_2d(np.asarray(points_base, dtype=np.float64))
        in_camera = points @ self.camera_from_base[:3, :3].T + self.camera_from_base[:3, 3]
        flat = in_camera[:, :2] / in_camera[:, 2:]
        k1, k2 = self.distortion
        squared = (flat**2).sum(axis=1, keepdims=True)
        flat = flat * (1 + k1 * squared + k2 * squared**2)
        return np.asarray(flat @ self.intrinsics[:2, :2].T + self.intrinsics[:2, 2])


@dataclass(frozen=True, slots=True)
class CameraShift:
    """How far a camera has moved since it was calibrated."""

    eye_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    target_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    roll_rad: float = 0.0
    view_angle_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class CameraMount:
    """Where a camera is in the room, and its lens."""

    eye_m: tuple[float, float, float] = (0.07, -0.42, 0.72)
    target_m: tuple[float, float, float] = (0.60, 0.0, 0.05)
    roll_rad: float = 0.0
    view_angle_rad: float = 0.56
    distortion: tuple[float, float] = (0.0, 0.0)

    def calibrate(self, size: int) -> CameraModel:
        """The camera model of images with size x size pixels."""
        focal = size / 2 / np.tan(self.view_angle_rad / 2)
        centre = (size - 1) / 2
        intrinsics = np.array([[focal, 0, centre], [0, focal, centre], [0, 0, 1]])
        return CameraModel(intrinsics, self._camera_from_base(), size, self.distortion)

    def moved(self, shift: CameraShift) -> CameraMount:
        """The same lens after someone bumped into its stand."""
        ex, ey, ez = (a + b for a, b in zip(self.eye_m, shift.eye_m, strict=True))
        tx, ty, tz = (a + b for a, b in zip(self.target_m, shift.target_m, strict=True))
        return dataclasses.replace(
            self,
            eye_m=(ex, ey, ez),
            target_m=(tx, ty, tz),
            roll_rad=self.roll_rad + shift.roll_rad,
            view_angle_rad=self.view_angle_rad * shift.view_angle_scale,
        )

    def _camera_from_base(self) -> np.ndarray:
        eye, target = np.array(self.eye_m), np.array(self.target_m)
        forward = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right /= np.linalg.norm(right)
        down = np.cross(forward, right)
        cosine, sine = np.cos(self.roll_rad), np.sin(self.roll_rad)
        rotation = np.stack([cosine * right + sine * down, cosine * down - sine * right, forward])
        pose = np.eye(4)
        pose[:3, :3] = rotation
        pose[:3, 3] = -rotation @ eye
        return pose


STANDARD_CAMERA = CameraMount()  # over the arm's right shoulder
