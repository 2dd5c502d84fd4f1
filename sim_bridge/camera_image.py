"""Takes the camera's image: a pinhole rendering, then the lens and the sensor."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from sim_bridge.bullet import pybullet
from sim_bridge.camera import CameraModel, CameraMount
from sim_bridge.randomization import ImageFlaws, Variation

_NEAR_M, _FAR_M = 0.1, 4.0


class ImageMaker:
    """Renders the moving bodies of a physics client in front of the static ones on its stage, through one camera."""

    def __init__(self, client: Any, stage: Any, mount: CameraMount, size: int) -> None:
        self._client = client
        self._stage = stage
        self._mount = mount
        self._size = size
        self._look_through(mount)
        self._lens = _lens_maps(mount.calibrate(size))
        self._variation = Variation()
        self._rng = np.random.default_rng(0)
        self._still: tuple[np.ndarray, np.ndarray] | None = None

    def begin(self, variation: Variation, rng: np.random.Generator) -> None:
        """Set light, exposure and noise for the coming images of a stage that does not change."""
        if variation.camera_shift != self._variation.camera_shift:
            self._look_through(self._mount.moved(variation.camera_shift))
        self._variation = variation
        self._rng = rng
        self._still = None

    def take(self) -> np.ndarray:
        """(H, W, 3) uint8, RGB."""
        if self._still is None:
            self._still = self._render(self._stage)
        still_image, still_depth = self._still
        image, depth = self._render(self._client)
        is_behind = (depth >= still_depth).view(np.uint8)
        cv2.copyTo(still_image, is_behind, image)
        image = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGBA2RGB))
        if self._lens is not None:
            image = np.asarray(cv2.remap(image, *self._lens, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))
        if self._variation.flaws != ImageFlaws():
            image = add_flaws(image, self._variation.flaws, self._rng)
        return image

    def _look_through(self, mount: CameraMount) -> None:
        camera = mount.calibrate(self._size)
        self._view, self._projection = _view_matrix(camera), _projection_matrix(camera)

    def _render(self, client: Any) -> tuple[np.ndarray, np.ndarray]:
        """Image (H, W, 4) and depth (H, W) of one client."""
        size, light = self._size, self._variation.light
        _, _, rgba, depth, _ = client.getCameraImage(
            size,
            size,
            self._view,
            self._projection,
            shadow=0,
            lightDirection=light.direction,
            lightColor=light.rgb,
            lightDistance=2.0,
            lightAmbientCoeff=light.ambient,
            lightDiffuseCoeff=light.diffuse,
            lightSpecularCoeff=light.specular,
            renderer=pybullet.ER_TINY_RENDERER,
            flags=pybullet.ER_NO_SEGMENTATION_MASK,
        )
        return np.reshape(np.asarray(rgba, dtype=np.uint8), (size, size, 4)), np.reshape(depth, (size, size))


def add_flaws(image: np.ndarray, flaws: ImageFlaws, rng: np.random.Generator) -> np.ndarray:
    """Blur, vignette, exposure, white balance and noise of a sensor."""
    size = image.shape[0]
    pixels = image.astype(np.float32)
    sigma = flaws.blur_px_at_472 * size / 472
    if sigma > 0:
        pixels = np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma))
    along = np.linspace(-1, 1, size, dtype=np.float32) ** 2
    shade = 1 - flaws.vignette * (along[:, None] + along[None, :]) / 2
    pixels *= shade[:, :, None] * np.array(flaws.gain, dtype=np.float32)
    pixels += rng.standard_normal(pixels.shape, dtype=np.float32) * np.float32(flaws.noise)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _view_matrix(camera: CameraModel) -> tuple[float, ...]:
    """Column by column, in OpenGL's axes: y up and z out of the image."""
    flip = np.diag([1.0, -1.0, -1.0, 1.0])
    return tuple((flip @ camera.camera_from_base).T.ravel())


def _projection_matrix(camera: CameraModel) -> tuple[float, ...]:
    size, k = camera.size, camera.intrinsics
    depth = _FAR_M - _NEAR_M
    # Pixel centres are at integers, so the image spans -0.5 to size - 0.5.
    matrix = np.array(
        [
            [2 * k[0, 0] / size, 0, 1 - 2 * (k[0, 2] + 0.5) / size, 0],
            [0, 2 * k[1, 1] / size, 2 * (k[1, 2] + 0.5) / size - 1, 0],
            [0, 0, -(_FAR_M + _NEAR_M) / depth, -2 * _FAR_M * _NEAR_M / depth],
            [0, 0, -1, 0],
        ]
    )
    return tuple(matrix.T.ravel())


def _lens_maps(camera: CameraModel) -> tuple[np.ndarray, np.ndarray] | None:
    """For each pixel of the distorted image, its position in the pinhole rendering."""
    if camera.distortion == (0.0, 0.0):
        return None
    size = camera.size
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    bent = np.stack([columns.ravel(), rows.ravel()], axis=1)[:, None, :]
    coefficients = np.array([*camera.distortion, 0.0, 0.0])
    straight = np.asarray(cv2.undistortPoints(bent, camera.intrinsics, coefficients, P=camera.intrinsics))
    maps = straight.reshape(size, size, 2).astype(np.float32)
    return np.ascontiguousarray(maps[:, :, 0]), np.ascontiguousarray(maps[:, :, 1])
