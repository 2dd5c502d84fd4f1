"""A candidate as a policy: in every state, the action its Q function likes best."""

from __future__ import annotations

import dataclasses

import numpy as np

from opc_ros.grasp import GraspAction, Observation
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.greedy import CemSettings, greedy_actions
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations
from sim_bridge.behaviour import act_at_random

_STRIDE = 1000  # more than an episode has steps, so that no two steps search with the same draws
_STREAM = 12  # keeps random actions apart from other draws of the episode's seed


class GreedyPolicy:
    """Searches the best action anew at each step; its draws follow from the episode's seed."""

    def __init__(
        self, candidate: Candidate, settings: CemSettings, *, epsilon: float = 0.0, allow_code: bool = False
    ) -> None:
        """`epsilon` is how often it acts at random instead."""
        self._candidate = candidate
        self._settings = settings
        self._epsilon = epsilon
        self._rng = np.random.default_rng(0)
        self._q_function = load_q_function(candidate, allow_code=allow_code, device="cpu")
        self._next_seed = 0

    @property
    def name(self) -> str:
        """The candidate's id; with random actions in between it is another policy, and says so."""
        return f"{self._candidate.id}+random{self._epsilon:g}" if self._epsilon else self._candidate.id

    def begin(self, seed: int) -> None:
        self._next_seed = seed * _STRIDE
        self._rng = np.random.default_rng((seed, _STREAM))

    def choose(self, observation: Observation) -> GraspAction:
        spec = self._candidate.manifest.input
        settings = dataclasses.replace(self._settings, seed=self._next_seed)
        self._next_seed += 1
        if self._epsilon and self._rng.random() < self._epsilon:
            return act_at_random(self._rng, spec.action_bounds)
        seen = Observations.from_sequence([observation], spec.image_size)
        actions, _ = greedy_actions(self._q_function, seen, spec.action_space, settings)
        return GraspAction.from_vector(actions[0])
