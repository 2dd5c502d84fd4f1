"""What training adds to recorded batches: pictures and features disturbed, and stops that cannot succeed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from opc_ros.grasp import ACTION_SIZE, ActionBounds
from opc_ros.policies.architectures import Code

_LARGEST_SHIFT = 0.03  # of the picture's side, at strength 1
_OPEN_M = 0.07  # a gripper this wide holds nothing
_CLEAR_M = 0.12  # tool height from which on closing fingers meet no object


def jitter_pictures(images: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Exposure, white balance, noise and a shift for each picture (B, S, S, 3) on its own."""
    if not strength:
        return images
    count, size = images.shape[:2]
    reach = round(strength * _LARGEST_SHIFT * size)
    shifted = np.stack([_shift(image, *rng.integers(-reach, reach + 1, size=2)) for image in images])
    exposure = rng.uniform(1 - 0.25 * strength, 1 + 0.25 * strength, size=(count, 1, 1, 1))
    balance = rng.uniform(1 - 0.08 * strength, 1 + 0.08 * strength, size=(count, 1, 1, 3))
    spread = rng.uniform(0.0, 8.0 * strength, size=(count, 1, 1, 1))
    pixels = shifted * (exposure * balance).astype(np.float32)
    pixels += rng.standard_normal(images.shape, dtype=np.float32) * spread.astype(np.float32)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def add_vain_stops(
    tools: np.ndarray,
    actions: np.ndarray,
    targets: np.ndarray,
    *,
    share: float,
    shut_m: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Replace a share of a batch's actions by terminating with an empty gripper; its target is 0.

    Behaviour policies hardly ever stop at the wrong time, so data alone leaves open that it fails, and a search for
    the best action would find exactly that gap. A gripper narrower than `shut_m` has closed on nothing.
    """
    count = round(share * len(actions))
    aperture_m = tools[:count, 4]
    empty = np.flatnonzero((aperture_m > _OPEN_M) | (aperture_m < shut_m))
    actions, targets = actions.copy(), targets.copy()
    bounds = ActionBounds()
    stops = np.zeros((len(empty), ACTION_SIZE), dtype=np.float32)
    stops[:, :3] = rng.uniform(-bounds.displacement_m, bounds.displacement_m, (len(empty), 3))
    turns = rng.uniform(-bounds.rotation_rad, bounds.rotation_rad, len(empty))
    stops[:, 3], stops[:, 4], stops[:, 7] = np.sin(turns), np.cos(turns), 1.0
    gripper = rng.integers(3, size=len(empty))  # leave, open, close
    is_clear = tools[empty, 2] + stops[:, 2] > _CLEAR_M
    stops[:, 5], stops[:, 6] = gripper == 1, (gripper == 2) & is_clear
    actions[empty], targets[empty] = stops, 0.0
    return actions, targets


def drop_features(code: Code, share: float, rng: np.random.Generator) -> Code:
    """Dropout on what the network saw; tool and action stay whole."""
    if not share:
        return code
    seen, *others = code
    kept = torch.from_numpy(rng.random(tuple(seen.shape), dtype=np.float32) >= share).to(seen.device)
    dropped: Tensor = seen * kept / (1.0 - share)
    return (dropped, *others)


def _shift(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Moved by whole pixels; the border is repeated."""
    size = image.shape[0]
    rows = np.clip(np.arange(size) - down, 0, size - 1)
    columns = np.clip(np.arange(size) - right, 0, size - 1)
    return image[rows[:, None], columns]
