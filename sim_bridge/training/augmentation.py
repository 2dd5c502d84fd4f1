"""Augments recorded batches: disturbed images and features, and stops that cannot succeed."""

from __future__ import annotations

import cv2
import numpy as np
import torch
from torch import Tensor

from opc_ros.grasp import ACTION_SIZE, ActionBounds
from opc_ros.policies.architectures import Code

_LARGEST_SHIFT = 0.03  # of the image's side, at strength 1
_LARGEST_NOISE = 8.0  # grey values, at strength 1
_NOISE_STREAM = 4
_SHEETS = 16
_SLACK = 32  # by how many pixels a sheet of noise is larger than an image
_OPEN_M = 0.07  # a gripper this wide holds nothing
_CLEAR_M = 0.12  # above this tool height closing fingers meet no object, with room to spare
_EMPTY_AIR_M = 0.085  # likewise, just above the highest object


class ImageJitter:
    """Random exposure, white balance, noise and shift for each image.

    The noise is cut from sheets that are drawn once, weak and strong ones, at a random position for each image: drawing
    new noise would take as long as the network does.
    """

    def __init__(self, strength: float, size: int, seed: int) -> None:
        self._strength = strength
        self._reach = round(strength * _LARGEST_SHIFT * size)
        if strength:
            rng = np.random.default_rng((seed, _NOISE_STREAM))
            spreads = np.linspace(0.0, _LARGEST_NOISE * strength, _SHEETS)
            self._sheets = [_draw_noise(spread, size + _SLACK, rng) for spread in spreads.tolist()]

    def apply(self, images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The images, augmented, (B, S, S, 3) uint8."""
        if not self._strength:
            return images
        count, size = len(images), int(images.shape[1])
        gains = self._draw_gains(count, rng)
        moves = rng.integers(-self._reach, self._reach + 1, size=(count, 2))
        cuts = rng.integers(_SLACK + 1, size=(count, 2))
        sheets = rng.integers(_SHEETS, size=count)
        changed = np.empty_like(images)
        for index, image in enumerate(images):
            top, left = cuts[index, 0], cuts[index, 1]
            noise = self._sheets[sheets[index]][top : top + size, left : left + size]
            exposed = cv2.LUT(_shift(image, int(moves[index, 0]), int(moves[index, 1])), gains[index])
            cv2.add(exposed, noise, dst=changed[index], dtype=cv2.CV_8U)
        return changed

    def _draw_gains(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """For each image, a lookup table of grey values, (B, 1, 256, 3) uint8."""
        strength = self._strength
        exposure = rng.uniform(1 - 0.25 * strength, 1 + 0.25 * strength, size=(count, 1, 1, 1))
        balance = rng.uniform(1 - 0.08 * strength, 1 + 0.08 * strength, size=(count, 1, 1, 3))
        values = np.arange(256.0)[None, None, :, None] * exposure * balance
        return np.clip(values, 0, 255).astype(np.uint8)


def add_vain_stops(
    tools: np.ndarray,
    actions: np.ndarray,
    targets: np.ndarray,
    *,
    share: float,
    shut_m: float,
    rng: np.random.Generator,
    with_regrips: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Replace a share of a batch's actions with terminating with an empty gripper; its target is 0.

    Behaviour policies hardly ever stop at the wrong time, so the data alone does not say that this fails, and a search
    for the best action would exploit exactly that gap. A gripper narrower than `shut_m` has closed on nothing; with
    `with_regrips`, it may also close once more while terminating, which catches nothing either.
    """
    count = round(share * len(actions))
    aperture_m = tools[:count, 4]
    empty = np.flatnonzero((aperture_m > _OPEN_M) | (aperture_m < shut_m))
    actions, targets = actions.copy(), targets.copy()
    stops = _draw_moves(len(empty), rng)
    stops[:, 7] = 1.0
    gripper = rng.integers(3, size=len(empty))  # leave, open, close
    is_clear = tools[empty, 2] + stops[:, 2] > _CLEAR_M
    if with_regrips:
        is_clear |= tools[empty, 4] < shut_m
    stops[:, 5], stops[:, 6] = gripper == 1, (gripper == 2) & is_clear
    actions[empty], targets[empty] = stops, 0.0
    return actions, targets


def add_vain_closes(
    tools: np.ndarray, actions: np.ndarray, targets: np.ndarray, *, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Replace a share of a batch's actions with closing the gripper above all objects; its target is 0."""
    count = round(share * len(actions))
    if not count:
        return actions, targets
    closes = _draw_moves(count, rng)
    closes[:, 6] = 1.0
    ends = tools[-count:]
    is_vain = (ends[:, 4] > _OPEN_M) & (ends[:, 2] + closes[:, 2] > _EMPTY_AIR_M)
    rows = np.flatnonzero(is_vain) + len(actions) - count
    actions, targets = actions.copy(), targets.copy()
    actions[rows], targets[rows] = closes[is_vain], 0.0
    return actions, targets


def _draw_moves(count: int, rng: np.random.Generator) -> np.ndarray:
    """Random displacements and turns (count, 8) within the bounds."""
    bounds = ActionBounds()
    moves = np.zeros((count, ACTION_SIZE), dtype=np.float32)
    moves[:, :3] = rng.uniform(-bounds.displacement_m, bounds.displacement_m, (count, 3))
    turns = rng.uniform(-bounds.rotation_rad, bounds.rotation_rad, count)
    moves[:, 3], moves[:, 4] = np.sin(turns), np.cos(turns)
    return moves


def drop_features(code: Code, share: float, rng: np.random.Generator) -> Code:
    """Dropout on image features; tool and action are left alone."""
    if not share:
        return code
    seen, *others = code
    kept = torch.from_numpy(rng.random(tuple(seen.shape), dtype=np.float32) >= share).to(seen.device)
    dropped: Tensor = seen * kept / (1.0 - share)
    return (dropped, *others)


def _draw_noise(spread: float, side: int, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(np.rint(rng.normal(0.0, spread, (side, side, 3))), dtype=np.int16)


def _shift(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Shifted by whole pixels; the border is repeated."""
    size, edge = image.shape[0], max(abs(down), abs(right))
    if not edge:
        return image
    wide = cv2.copyMakeBorder(image, edge, edge, edge, edge, cv2.BORDER_REPLICATE)
    return np.asarray(wide[edge - down : edge - down + size, edge - right : edge - right + size])
