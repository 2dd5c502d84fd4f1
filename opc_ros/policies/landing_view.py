"""What the camera shows where an action leads the tool, in a few numbers."""

from __future__ import annotations

import numpy as np

from opc_ros.camera import CameraSpec
from opc_ros.grasp import ACTION_SIZE, TOOL_SIZE

_NUMBERS = 12  # principal components that describe a patch
_CELLS = 10
_SIDE_M = 0.14
_SURFACE_Z_M = 0.02  # where objects lie
_THUMBNAIL = 12  # cells of the whole image, used if no camera is known
_LEARNT_FROM = 4000  # patches


class LandingView:
    """Patches of the recorded images around the points where actions lead, as a few principal components."""

    def __init__(self, images: np.ndarray, states: np.ndarray, camera: CameraSpec | None) -> None:
        self._images = images  # (N, h, w, 3)
        self._states = states  # (N, S)
        self._camera = camera if states.shape[1] == TOOL_SIZE else None
        self._mean = np.zeros(0)
        self._axes = np.zeros((0, 0))

    def learn(self, actions: np.ndarray) -> None:
        """Find the components along which patches of the recorded actions (N, A) vary most."""
        patches = self._patches(actions)
        patches = patches[:: max(1, -(-len(patches) // _LEARNT_FROM))]
        self._mean = patches.mean(axis=0)
        _, strengths, axes = np.linalg.svd(patches - self._mean, full_matrices=False)
        kept = axes[:_NUMBERS][strengths[:_NUMBERS] > 1e-6]
        # A component's sign depends on the linear algebra library, so make its largest number positive.
        signs = np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)])
        self._axes = kept * signs[:, None]

    def see(self, actions: np.ndarray) -> np.ndarray:
        """Components for actions (N, A) in the recorded states, (N, at most 12)."""
        return (self._patches(actions) - self._mean) @ self._axes.T

    def _patches(self, actions: np.ndarray) -> np.ndarray:
        """(N, cells * cells * 3), each minus its own mean colour, from about -1 to 1."""
        if self._camera is None or actions.shape[1] != ACTION_SIZE:
            height, width = self._images.shape[1:3]
            rows, columns = (np.arange(_THUMBNAIL) * side // _THUMBNAIL for side in (height, width))
            colours = self._images[:, rows[:, None], columns[None]]
        else:
            colours = self._look(actions, self._camera)
        colours = colours.reshape(len(actions), -1, 3).astype(np.float64) / 255.0
        return np.asarray((colours - colours.mean(axis=1, keepdims=True)).reshape(len(actions), -1))

    def _look(self, actions: np.ndarray, camera: CameraSpec) -> np.ndarray:
        """Colours of a horizontal grid around each landing point, rotated with the gripper, (N, cells * cells, 3)."""
        yaw = self._states[:, 3] + np.arctan2(actions[:, 3], actions[:, 4])
        ticks = ((np.arange(_CELLS) + 0.5) / _CELLS - 0.5) * _SIDE_M
        ahead, left = (axis.ravel() for axis in np.meshgrid(ticks, ticks, indexing="ij"))
        cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        x = self._states[:, :1] + actions[:, :1] + cos * ahead - sin * left
        y = self._states[:, 1:2] + actions[:, 1:2] + sin * ahead + cos * left
        points = np.stack([x, y, np.full_like(x, _SURFACE_Z_M)], axis=-1).reshape(-1, 3)
        height, width = self._images.shape[1:3]
        shares = np.nan_to_num(camera.see(points), nan=-1.0).reshape(len(actions), -1, 2)
        columns = np.clip((shares[..., 0] * width).astype(np.int64), 0, width - 1)
        rows = np.clip((shares[..., 1] * height).astype(np.int64), 0, height - 1)
        return np.asarray(self._images[np.arange(len(actions))[:, None], rows, columns])
