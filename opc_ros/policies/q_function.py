"""The interface of a candidate of kind q: how good is this action in this state?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.grasp import Observation
from opc_ros.policies.image_view import ImageView


@dataclass(frozen=True, slots=True)
class Observations:
    """A batch of what policies see, at the image size of one Q function."""

    images: np.ndarray  # (B, H, W, 3) uint8, RGB
    tools: np.ndarray  # (B, S) float32, in the order of the task's state

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.shape[3] != 3 or self.images.dtype != np.uint8:
            raise CandidateError(
                f"observations: images are {self.images.dtype} of shape {self.images.shape}, "
                "expected uint8 (B, H, W, 3)"
            )
        if self.tools.ndim != 2 or len(self.tools) != len(self.images):
            raise CandidateError(
                f"observations: tools have shape {self.tools.shape}, expected a row for each of {len(self.images)}"
            )

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, start: int, stop: int) -> Observations:
        return Observations(images=self.images[start:stop], tools=self.tools[start:stop])

    @classmethod
    def from_sequence(cls, observations: Sequence[Observation], view: ImageView) -> Observations:
        """The observations as a candidate with this view sees them."""
        return cls(
            images=np.stack([view.show_observation(observation) for observation in observations]),
            tools=np.stack([observation.tool.to_vector() for observation in observations]),
        )


@runtime_checkable
class QFunction(Protocol):
    """Scores actions: higher is better, one number for each row."""

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        """Q of each action (B, A) in the state of the same row, (B,) float32."""
        ...


@runtime_checkable
class FactoredQFunction(QFunction, Protocol):
    """A Q function that encodes the image once, however many actions are compared."""

    def encode(self, observations: Observations) -> Any:
        """Whatever `head` needs to know about B states."""
        ...

    def head(self, code: Any, actions: np.ndarray) -> np.ndarray:
        """Q of actions (B * K, A), the first K belonging to the first state, (B * K,) float32."""
        ...


class ScriptedQFunction:
    """A fake: Q is a plain function of images, tools and actions that the caller provides."""

    def __init__(self, function: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> None:
        self._function = function

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        return np.asarray(self._function(observations.images, observations.tools, actions), dtype=np.float32)
