"""A candidate as a policy: this one object is what gets scored, measured, permitted and run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from opc_ros.grasp import GraspAction, Observation
from opc_ros.policies.action_search import AnswerDraw, ChoiceSearch, search_seed
from opc_ros.policies.answering import AnsweringThinker, probe_answers
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.compute import limit_threads_here
from opc_ros.policies.greedy import greedy_actions, q_in_one_state
from opc_ros.policies.loading import check_values, load_action_function, load_q_function, probe
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.q_function import Observations, QFunction


@dataclass(frozen=True, slots=True)
class Choice:
    """The action a policy chose in one state, and its Q."""

    vector: np.ndarray  # (A,) float32, as the search found it
    q: float | None  # None: it answers actions and has no Q

    @property
    def action(self) -> GraspAction:
        return GraspAction.from_vector(self.vector)


class Thinker(Protocol):
    """Where a policy computes: in this process, or in one of the candidate's own."""

    def q(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q (B,) of each action in the state of the same row."""
        ...

    def decide_on(self, seen: Observations, *, seed: int, first_step: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Actions (T, A) and their Q (T,) at consecutive steps of the episode with this seed."""
        ...

    def q_in_one_state(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q (K,) of several actions in one state."""
        ...

    def close(self) -> None: ...


class LocalThinker:
    """Runs in this process: for trusted candidates, and inside a candidate's own process."""

    def __init__(self, manifest: CandidateManifest, q_function: QFunction) -> None:
        assert not isinstance(manifest.action_search, AnswerDraw), "a policy has nothing to search"
        self._space = manifest.input.action_space
        self._search = manifest.action_search
        self._q_function = q_function

    @property
    def q_function(self) -> QFunction:
        return self._q_function

    def q(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        return check_values(self._q_function.q(seen, actions), len(actions))

    def decide_on(self, seen: Observations, *, seed: int, first_step: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """If actions are drawn, each step is searched alone, exactly as on an arm.

        A few fixed choices are compared for all steps at once: without random draws, no result hinges on the last bit
        of a Q.
        """
        if isinstance(self._search, ChoiceSearch):
            return self._find(seen, 0)
        found = [self._find(seen.rows(row, row + 1), search_seed(seed, first_step + row)) for row in range(len(seen))]
        return np.concatenate([actions for actions, _ in found]), np.concatenate([values for _, values in found])

    def q_in_one_state(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        return q_in_one_state(self._q_function, seen, actions)

    def close(self) -> None: ...

    def _find(self, seen: Observations, seed: int) -> tuple[np.ndarray, np.ndarray]:
        return greedy_actions(self._q_function, seen, self._space, self._search, seed)


class Policy:
    """The action that the manifest's search finds best under the candidate's Q, or that the candidate answers itself.

    A choice depends only on image, tool, the episode's seed and the step: states are searched one at a time, so the
    same step of the same episode always gives the same action, bit for bit.
    """

    def __init__(self, candidate: Candidate, thinker: Thinker) -> None:
        self._candidate = candidate
        self._thinker = thinker
        self._seed = 0
        self._step = 0

    @property
    def name(self) -> str:
        """The candidate's id, under which episodes record who played them."""
        return self._candidate.id

    @property
    def candidate(self) -> Candidate:
        return self._candidate

    def begin(self, seed: int) -> None:
        """Begin an episode; steps are counted from here."""
        self._seed, self._step = seed, 0

    def choose(self, observation: Observation) -> GraspAction:
        """The action for the next step of the current episode."""
        choice = self.decide(observation, seed=self._seed, step=self._step)
        self._step += 1
        return choice.action

    def skip(self) -> None:
        """Count a step at which somebody else chose the action."""
        self._step += 1

    def decide(self, observation: Observation, *, seed: int, step: int) -> Choice:
        """The choice at one step of the episode with this seed."""
        seen = Observations.from_sequence([observation], self._candidate.manifest.input.view)
        actions, values = self._thinker.decide_on(seen, seed=seed, first_step=step)
        return Choice(actions[0], None if self._candidate.manifest.is_policy else float(values[0]))

    def decide_each(self, seen: Observations, *, seed: int, first_step: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The actions (T, A) and their Q (T,) at consecutive steps of one episode; images at the candidate's size."""
        return self._thinker.decide_on(seen, seed=seed, first_step=first_step)

    def q(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q (B,) of given actions; images at the candidate's size."""
        return self._thinker.q(seen, actions)

    def q_in_one_state(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q (K,) of several actions in one state; image at the candidate's size."""
        return self._thinker.q_in_one_state(seen, actions)

    def close(self) -> None:
        """Release whatever it computes in."""
        self._thinker.close()


def load_policy(candidate: Candidate, *, allow_code: bool = False, device: str | None = None) -> Policy:
    """Load the candidate's bytes into this process, and try it once.

    It computes on one core: sums that are split among cores round differently, and an action must not depend on that.
    """
    limit_threads_here(1)
    return Policy(candidate, load_thinker(candidate, allow_code=allow_code, device=device))


def load_thinker(
    candidate: Candidate, *, allow_code: bool = False, device: str | None = None, is_coarse: bool = False
) -> Thinker:
    """The thinker for a candidate of either kind, tried once; `is_coarse`: Q in bfloat16, for a first look."""
    manifest = candidate.manifest
    if manifest.is_policy:
        function = load_action_function(candidate, allow_code=allow_code, device=device)
        probe_answers(function, manifest)
        return AnsweringThinker(manifest, function)
    q_function = load_q_function(candidate, allow_code=allow_code, device=device)
    if is_coarse:
        from opc_ros.policies.coarse_q import coarsen

        q_function = coarsen(q_function)
    probe(q_function, manifest)
    return LocalThinker(manifest, q_function)


def seed_of_recorded(episode_id: str, recorded_seed: int | None = None) -> int:
    """The seed with which a policy is evaluated on a recorded episode.

    This is the seed the episode was played with, if known; otherwise 32 bits of the sha256 of its id, so that everybody
    who asks what a policy would have done there draws the same numbers.
    """
    if recorded_seed is not None:
        return recorded_seed
    return int.from_bytes(hashlib.sha256(episode_id.encode()).digest()[:4], "big")
