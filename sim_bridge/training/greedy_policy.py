"""A candidate as a policy: in every state, the action its Q function likes best."""

from __future__ import annotations

import dataclasses

from opc_ros.grasp import GraspAction, Observation
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.greedy import CemSettings, greedy_actions
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations

_STRIDE = 1000  # more than an episode has steps, so that no two steps search with the same draws


class GreedyPolicy:
    """Searches the best action anew at each step; its draws follow from the episode's seed."""

    def __init__(self, candidate: Candidate, settings: CemSettings, *, allow_code: bool = False) -> None:
        self._candidate = candidate
        self._settings = settings
        self._q_function = load_q_function(candidate, allow_code=allow_code, device="cpu")
        self._next_seed = 0

    @property
    def name(self) -> str:
        return self._candidate.name

    def begin(self, seed: int) -> None:
        self._next_seed = seed * _STRIDE

    def choose(self, observation: Observation) -> GraspAction:
        spec = self._candidate.manifest.input
        settings = dataclasses.replace(self._settings, seed=self._next_seed)
        self._next_seed += 1
        seen = Observations.from_sequence([observation], spec.image_size)
        actions, _ = greedy_actions(self._q_function, seen, spec.action_space, settings)
        return GraspAction.from_vector(actions[0])
