"""Loaded candidates, and their answers about the steps of some episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.check import find_dependence
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.loading import check_values
from opc_ros.policies.policy import Policy
from opc_ros.policies.q_function import Observations
from opc_ros.policies.stack import SingleStack, Stack, find_stacks
from opc_ros.policies.worker.loader import PolicyLoader, scoring_device, why_in_process
from opc_ros.scoring.episode_states import EpisodeStates
from opc_ros.scoring.failure import Failure, describe_failure
from opc_ros.scoring.mixed_batches import mix_rows, rows_of_a_batch

LoadPolicy = Callable[[Candidate], Policy]
Answers = dict[str, np.ndarray]  # Q (N,) by candidate id, the episodes concatenated


@dataclass(frozen=True, slots=True)
class LoadedCandidate:
    """A loaded candidate, alone or in a stack with others."""

    id: str
    stack: Stack
    member: int  # its index in the stack
    view: ImageView
    task: str
    has_own_code: bool

    @property
    def policy(self) -> Policy:
        return self.stack.policies[self.member]


Loaded = tuple[dict[str, LoadedCandidate], tuple[Failure, ...]]


def load_candidates(candidates: Iterable[Candidate], load: LoadPolicy) -> Loaded:
    """Load each by itself; those that cannot be loaded or cannot answer are returned as failures."""
    loaded: dict[str, LoadedCandidate] = {}
    failures = []
    for candidate in candidates:
        try:
            loaded |= _members((candidate,), SingleStack(load(candidate)))
        except Exception as error:  # a candidate may raise anything, and the others are still to be scored
            failures.append(Failure(candidate.id, describe_failure(error)))
    return loaded, tuple(failures)


def load_together(candidates: Sequence[Candidate], loader: PolicyLoader, *, at_least: int) -> Loaded:
    """Load stacks of candidates that can share a process; if one cannot be loaded, load its members one by one."""
    if why_in_process():
        return load_candidates(candidates, loader)
    loaded: dict[str, LoadedCandidate] = {}
    failures: tuple[Failure, ...] = ()
    for stacked in find_stacks(candidates, at_least=at_least):
        try:
            loaded |= _members(stacked, loader.load_stack(stacked))
        except Exception:  # the error does not say which member caused it
            found, failed = load_candidates(stacked, loader)
            loaded |= found
            failures += failed
    return loaded, failures


def _members(stacked: Sequence[Candidate], stack: Stack) -> dict[str, LoadedCandidate]:
    return {
        candidate.id: LoadedCandidate(
            id=candidate.id,
            stack=stack,
            member=number,
            view=candidate.manifest.input.view,
            task=candidate.manifest.task,
            has_own_code=candidate.manifest.format != "safetensors",
        )
        for number, candidate in enumerate(stacked)
    }


def group_by_stack(candidates: Iterable[LoadedCandidate]) -> list[list[LoadedCandidate]]:
    """Candidates in groups that one request reaches together."""
    groups: dict[int, list[LoadedCandidate]] = {}
    for candidate in candidates:
        groups.setdefault(id(candidate.stack), []).append(candidate)
    return list(groups.values())


def ask_stack(
    candidates: Sequence[LoadedCandidate], states: Sequence[EpisodeStates]
) -> tuple[Answers, tuple[Failure, ...]]:
    """Answers of one stack's members about every step; a member that breaks the batch is identified and left out."""
    try:
        found = _ask_in_mixed_batches(candidates, states)
    except Exception as error:  # a candidate may raise anything, and the others are still to be scored
        if len(candidates) == 1:
            return {}, (Failure(candidates[0].id, describe_failure(error)),)
        answers: Answers = {}
        failures: tuple[Failure, ...] = ()
        for candidate in candidates:
            alone, failed = ask_stack([candidate], states)
            answers |= alone
            failures += failed
        return answers, failures
    return _keep_good(found)


def _keep_good(found: Mapping[str, tuple[np.ndarray, str]]) -> tuple[Answers, tuple[Failure, ...]]:
    answers, failures = {}, []
    for name, (values, complaint) in found.items():
        try:
            good = check_values(values, len(values))
            if complaint:
                raise CandidateError(complaint)
            answers[name] = good
        except CandidateError as error:
            failures.append(Failure(name, describe_failure(error)))
    return answers, tuple(failures)


def _ask_in_mixed_batches(
    candidates: Sequence[LoadedCandidate], states: Sequence[EpisodeStates]
) -> dict[str, tuple[np.ndarray, str]]:
    """By candidate id, Q (N,) at the recorded actions, the episodes concatenated, and what is wrong with it."""
    first = candidates[0]
    everything = Observations(
        images=np.concatenate([state.images[first.view] for state in states]),
        tools=np.concatenate([state.tools for state in states]),
    )
    actions = np.concatenate([state.actions for state in states])
    members = [candidate.member for candidate in candidates]

    def ask(rows: np.ndarray) -> np.ndarray:
        asked = Observations(images=everything.images[rows], tools=everything.tools[rows])
        return first.stack.q(members, asked, actions[rows])

    values = np.empty((len(members), len(actions)), dtype=np.float32)
    mixed = mix_rows(
        [state.facts.steps for state in states],
        [state.facts.file_sha256 for state in states],
        rows_of_a_batch(first.view.size, scoring_device(), has_own_code=first.has_own_code),
    )
    for rows in mixed:
        values[:, rows] = ask(rows)
    one = mixed[0][:1]
    alone = ask(one)
    return {
        candidate.id: (row, find_dependence(row, one, again))
        for candidate, row, again in zip(candidates, values, alone, strict=True)
    }
