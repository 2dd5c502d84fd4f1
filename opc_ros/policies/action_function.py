"""The interface of a candidate of kind policy: which action would it take in this state?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.grasp import ACTION_SIZE, ActionBounds, GraspAction
from opc_ros.policies.action_space import ActionChoices, ActionSpace
from opc_ros.policies.exported import network_arguments
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations


@runtime_checkable
class ActionFunction(Protocol):
    """Answers actions: one for each row, or several samples."""

    def act(self, observations: Observations) -> np.ndarray:
        """Actions (B, A), or K samples for each state (B, K, A), floating point."""
        ...


class ScriptedActionFunction:
    """A fake: its answer is a plain function of images and tools that the caller provides."""

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self._function = function

    def act(self, observations: Observations) -> np.ndarray:
        return np.asarray(self._function(observations.images, observations.tools), dtype=np.float32)


class ExportedActionFunction:
    """An exported network: images and tools in, actions out."""

    def __init__(self, network: Callable[[list[np.ndarray]], np.ndarray], spec: InputSpec) -> None:
        self._network = network
        self._spec = spec

    def act(self, observations: Observations) -> np.ndarray:
        return self._network(network_arguments(self._spec, observations))


def check_answers(answers: np.ndarray, rows: int, samples: int) -> np.ndarray:
    """Answers as (rows, samples, A) float32; a single sample needs no axis. Raises what is wrong otherwise."""
    answers = np.asarray(answers)
    full = (rows, samples, ACTION_SIZE)
    expected = full if samples > 1 else (rows, ACTION_SIZE)
    if answers.shape not in (full, expected):
        raise CandidateError(f"returned shape {answers.shape} for {rows} states, expected {expected}")
    if not np.issubdtype(answers.dtype, np.floating):
        raise CandidateError(f"returned {answers.dtype}, expected floating point numbers")
    shaped = answers.reshape(full).astype(np.float32, copy=False)
    bad = int(np.count_nonzero(~np.isfinite(shaped).all(axis=(1, 2))))
    if bad:
        raise CandidateError(f"returned NaN or infinity for {bad} of {rows} states")
    return shaped


def bring_within(answers: np.ndarray, bounds: ActionBounds) -> np.ndarray:
    """Answers (N, A) as actions within bounds: clipped, sine and cosine made consistent, flags set above one half."""
    brought = [bounds.clamp(GraspAction.from_vector(answer)).to_vector() for answer in answers]
    return np.array(brought, dtype=np.float32).reshape(len(answers), ACTION_SIZE)


def find_outside(actions: np.ndarray, space: ActionSpace) -> str:
    """What is wrong with the first of some chosen actions (N, A) that is outside the space; empty if none is."""
    if isinstance(space, ActionChoices):
        is_choice = (actions[:, None] == space.to_array()).all(axis=2).any(axis=1)
        return "" if is_choice.all() else "is none of its choices"
    if not np.isfinite(actions).all():
        return "is not finite"
    for action in actions:
        if outside := space.violations(GraspAction.from_vector(action)):
            return outside[0]
    return ""
