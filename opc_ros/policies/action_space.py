"""The actions a policy may choose from: anything within bounds, or a few fixed ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.grasp import ActionBounds
from opc_ros.task import GRASPING


@dataclass(frozen=True, slots=True)
class ActionChoices:
    """A fixed list of actions; the best is found by comparing all of them."""

    vectors: tuple[tuple[float, ...], ...]  # each as long as the task's actions

    def __post_init__(self) -> None:
        if len(self.vectors) < 2 or len(set(self.vectors)) != len(self.vectors):
            raise ValueError(f"action_choices has {len(set(self.vectors))} different actions, expected 2 or more, once")
        for index, vector in enumerate(self.vectors):
            if len(vector) != self.size:
                raise ValueError(
                    f"action_choices[{index}] has {len(vector)} numbers, expected {self.size} as the first"
                )
            if not all(map(math.isfinite, vector)):
                raise ValueError(f"action_choices[{index}] is {list(vector)}, expected finite numbers")

    @property
    def size(self) -> int:
        """How many numbers an action has."""
        return len(self.vectors[0])

    def to_array(self) -> np.ndarray:
        """One row for each choice, (K, A) float32."""
        return np.array(self.vectors, dtype=np.float32)


ActionSpace = ActionBounds | ActionChoices


def find_whole_space(task: str) -> ActionBounds | None:
    """All actions of a task, whatever a candidate restricts itself to; None: not searchable within bounds."""
    return ActionBounds() if task == GRASPING.name else None


def measure_reach(task: str, space: ActionSpace) -> float:
    """The size of one action as a fraction of what its task allows, from 0 to 1."""
    whole = find_whole_space(task)
    if whole is None:
        return 1.0
    furthest_m = (
        space.displacement_m if isinstance(space, ActionBounds) else float(np.abs(space.to_array()[:, :3]).max())
    )
    return min(1.0, furthest_m / whole.displacement_m)
