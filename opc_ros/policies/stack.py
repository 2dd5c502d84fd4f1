"""Candidates with the same input that are evaluated together, with one request for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from opc_ros.policies.candidate import Candidate
from opc_ros.policies.policy import LocalThinker, Policy, Thinker
from opc_ros.policies.q_function import Observations

MOST_MEMBERS = 16


class Stack(Protocol):
    """Policies that can be evaluated on the same states at once."""

    @property
    def policies(self) -> tuple[Policy, ...]: ...

    def q(self, members: Sequence[int], seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q (M, B) float32 of each action under the policies with these indices; a bad answer stays within its row."""
        ...

    def close(self) -> None: ...


class SingleStack:
    """A policy by itself."""

    def __init__(self, policy: Policy) -> None:
        self.policies = (policy,)

    def q(self, members: Sequence[int], seen: Observations, actions: np.ndarray) -> np.ndarray:
        assert tuple(members) == (0,)
        return self.policies[0].q(seen, actions)[None]

    def close(self) -> None:
        self.policies[0].close()


class LocalStack:
    """Candidates in this process; networks of named architectures share the image crops that they look at."""

    def __init__(self, thinkers: Sequence[Thinker]) -> None:
        self._thinkers = thinkers

    def q(self, members: Sequence[int], seen: Observations, actions: np.ndarray) -> np.ndarray:
        if len(members) == 1:
            return self._thinkers[members[0]].q(seen, actions)[None]
        from opc_ros.policies.torch_q import NetworkQFunction, ask_together

        asked = [self._thinkers[member] for member in members]
        q_functions = [thinker.q_function for thinker in asked if isinstance(thinker, LocalThinker)]
        networks = [q_function for q_function in q_functions if isinstance(q_function, NetworkQFunction)]
        if len(networks) == len(asked):
            return ask_together(networks, seen, actions)
        return np.stack([thinker.q(seen, actions) for thinker in asked])

    def decide_on(
        self, member: int, seen: Observations, *, seed: int, first_step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._thinkers[member].decide_on(seen, seed=seed, first_step=first_step)

    def q_in_one_state(self, member: int, seen: Observations, actions: np.ndarray) -> np.ndarray:
        return self._thinkers[member].q_in_one_state(seen, actions)


def find_stacks(candidates: Sequence[Candidate], *, at_least: int = 1) -> list[tuple[Candidate, ...]]:
    """Which candidates may share a process: weights for code that ships here, with images of one size.

    A candidate that brings a program of its own is always alone. Each kind is split into `at_least` stacks, if it has
    that many candidates, so that every core has one to work on.
    """
    kinds: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates:
        manifest = candidate.manifest
        alone = (candidate.id,)
        together = (manifest.task, manifest.input.view, manifest.kind)
        kinds.setdefault(together if manifest.format == "safetensors" else alone, []).append(candidate)
    stacks = []
    for members in kinds.values():
        count = min(len(members), max(at_least, -(-len(members) // MOST_MEMBERS)))
        stacks += [tuple(members[number::count]) for number in range(count)]
    return stacks
