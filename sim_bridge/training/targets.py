"""What Q is trained towards: the episode's outcome, or the Bellman target under a lagging network."""

from __future__ import annotations

import copy
from typing import Protocol

import numpy as np

from opc_ros.grasp import ActionBounds
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.architectures import QNetwork
from opc_ros.policies.greedy import greedy_actions
from opc_ros.policies.torch_q import NetworkQFunction
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import Replay


class TargetMaker(Protocol):
    """Provides the target value of each transition's Q."""

    def targets(self, rows: np.ndarray, step: int) -> np.ndarray:
        """Targets (B,) float32, between 0 and 1, of these rows of the replay memory."""
        ...

    def follow(self, network: QNetwork) -> None:
        """Take over the weights that are being trained."""
        ...


def make_targets(recipe: TrainingRecipe, replay: Replay, device: str) -> TargetMaker:
    if recipe.targets == "monte_carlo":
        return MonteCarloTargets(replay, recipe.gamma)
    return BellmanTargets(replay, recipe, device)


class MonteCarloTargets:
    """Success, discounted by the number of steps before the end."""

    def __init__(self, replay: Replay, gamma: float) -> None:
        self._targets = (replay.final_reward * gamma**replay.steps_left).astype(np.float32)

    def targets(self, rows: np.ndarray, step: int) -> np.ndarray:
        return np.asarray(self._targets[rows])

    def follow(self, network: QNetwork) -> None:
        """Outcomes do not change."""


class BellmanTargets:
    """r + gamma * max over a' of Q(s', a'), with the maximum found by the cross-entropy method."""

    def __init__(self, replay: Replay, recipe: TrainingRecipe, device: str) -> None:
        self._replay = replay
        self._is_last = replay.is_last
        self._final_reward = replay.final_reward
        self._recipe = recipe
        self._device = device
        self._lagging: NetworkQFunction | None = None

    def targets(self, rows: np.ndarray, step: int) -> np.ndarray:
        assert self._lagging is not None, "follow comes first"
        targets = self._final_reward[rows]
        running = np.flatnonzero(~self._is_last[rows])
        recipe = self._recipe
        search = CrossEntropySearch(
            samples=recipe.cem_samples, elites=max(1, recipe.cem_samples // 8), rounds=recipe.cem_rounds
        )
        following = self._replay.observations(rows[running] + 1)
        _, best = greedy_actions(self._lagging, following, ActionBounds(), search, recipe.seed + step)
        targets[running] = recipe.gamma * best
        return np.asarray(targets)

    def follow(self, network: QNetwork) -> None:
        # The copy is rearranged for inference; the original continues to train.
        self._lagging = NetworkQFunction(copy.deepcopy(network), self._device)
