"""Noise that networks are asked about, and what no answer of theirs may depend on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from opc_ros.policies.q_function import Observations

ROWS = 64


def make_states(rows: int = ROWS, image_size: int = 48, seed: int = 0) -> tuple[Observations, np.ndarray]:
    """Noise for images; tools and actions that reach every border of the image and beyond."""
    rng = np.random.default_rng(seed)
    tools = rng.uniform([0.2, -0.35, 0.0, -3.0, 0.0], [0.9, 0.35, 0.5, 3.0, 0.08], (rows, 5))
    turns = rng.uniform(-0.7, 0.7, rows)
    actions = np.zeros((rows, 8))
    actions[:, :3] = rng.uniform(-0.08, 0.08, (rows, 3))
    actions[:, 3], actions[:, 4] = np.sin(turns), np.cos(turns)
    actions[:, 5:] = rng.random((rows, 3)) < 0.3
    images = rng.integers(0, 256, (rows, image_size, image_size, 3), dtype=np.uint8)
    return Observations(images, tools.astype(np.float32)), actions.astype(np.float32)


def tensors(seen: Observations, actions: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.from_numpy(seen.images), torch.from_numpy(seen.tools), torch.from_numpy(actions)


def check_neighbours(q: Callable[[Observations, np.ndarray], np.ndarray]) -> None:
    """A state's value has the same bits wherever in a batch it stands, and among whichever others."""
    seen, actions = make_states()
    others, other_actions = make_states(seed=1)
    expected = q(seen, actions)
    for order in (np.arange(ROWS)[::-1], np.random.default_rng(2).permutation(ROWS)):
        shuffled = Observations(seen.images[order], seen.tools[order])
        np.testing.assert_array_equal(q(shuffled, actions[order]), expected[order])
    images, tools, asked = others.images.copy(), others.tools.copy(), other_actions.copy()
    images[7], tools[7], asked[7] = seen.images[50], seen.tools[50], actions[50]
    assert q(Observations(images, tools), asked)[7] == expected[50]
