"""The actions a policy may choose from: all within bounds, or a few."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.grasp import ACTION_SIZE, ActionBounds


@dataclass(frozen=True, slots=True)
class ActionChoices:
    """The only actions there are; the best of them is found by asking about each."""

    vectors: tuple[tuple[float, ...], ...]  # of 8 numbers each

    def __post_init__(self) -> None:
        if len(self.vectors) < 2 or len(set(self.vectors)) != len(self.vectors):
            raise ValueError(f"action_choices has {len(set(self.vectors))} different actions, expected 2 or more, once")
        for index, vector in enumerate(self.vectors):
            if len(vector) != ACTION_SIZE:
                raise ValueError(f"action_choices[{index}] has {len(vector)} numbers, expected {ACTION_SIZE}")
            if not all(map(math.isfinite, vector)):
                raise ValueError(f"action_choices[{index}] is {list(vector)}, expected finite numbers")

    def to_array(self) -> np.ndarray:
        """One row for each choice, (K, 8) float32."""
        return np.array(self.vectors, dtype=np.float32)


ActionSpace = ActionBounds | ActionChoices
