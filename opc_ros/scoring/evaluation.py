"""Q values of some candidates on a few episodes: decode each frame once, query every candidate about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.policies.q_function import Observations
from opc_ros.scoring.asking import LoadedCandidate, ask_stack, group_by_stack
from opc_ros.scoring.episode_states import EpisodeStates, read_company, read_states
from opc_ros.scoring.failure import Failure, describe_failure
from opc_ros.scoring.own_search import SEARCH, is_standard, measure_shortfall
from opc_ros.scoring.q_cache import ACTED, GREEDY, LOGGED, EpisodeFacts, EpisodeKey, QCacheEntry
from opc_ros.scoring.source import EpisodeRef, EpisodeSource


@dataclass(frozen=True, slots=True)
class Chunk:
    """A few episodes and the candidates whose values on them are missing."""

    refs: tuple[EpisodeRef, ...]
    candidate_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to compute in each state: Q at the recorded action, and more or something else."""

    has_greedy: bool = False  # also Q at the action that the policy itself would have chosen
    has_only_actions: bool = False  # no Q at all, only that action
    searched: frozenset[EpisodeKey] = frozenset()  # episodes in which the policy's own action search is measured

    @property
    def quantities(self) -> tuple[str, ...]:
        if self.has_only_actions:
            return (ACTED,)
        return (LOGGED, GREEDY) if self.has_greedy else (LOGGED,)


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The result of one chunk."""

    chunk: Chunk
    entries: tuple[QCacheEntry, ...] = ()
    facts: tuple[EpisodeFacts, ...] = ()
    failed_episodes: tuple[Failure, ...] = ()
    failed_candidates: tuple[Failure, ...] = ()
    frames: int = 0  # decoded


def evaluate_chunk(
    source: EpisodeSource,
    chunk: Chunk,
    candidates: Mapping[str, LoadedCandidate],
    plan: EvaluationPlan,
) -> ChunkResult:
    """Read, decode and evaluate one chunk; failures are named, and the rest is still computed."""
    asked = [candidates[candidate_id] for candidate_id in chunk.candidate_ids if candidate_id in candidates]
    views = {candidate.view for candidate in asked}
    states, failed_episodes = read_states(source, chunk.refs, views)
    # Actions are chosen on one state at a time, so there are no neighbours to look at.
    company = read_company(source, chunk.refs, views) if states and not plan.has_only_actions else []
    entries: list[QCacheEntry] = []
    failures: list[Failure] = []
    for together in _in_turn(group_by_stack(asked), chunk):
        found, failed = _evaluate_stack(together, states, company, plan)
        entries += found
        failures += failed
    return ChunkResult(
        chunk=chunk,
        entries=tuple(entries),
        facts=tuple(state.facts for state in states),
        failed_episodes=failed_episodes,
        failed_candidates=tuple(failures),
        frames=sum(state.facts.steps for state in (*states, *company)),
    )


def _in_turn(stacks: list[list[LoadedCandidate]], chunk: Chunk) -> list[list[LoadedCandidate]]:
    """Each chunk begins with another stack, so that chunks processed in parallel seldom wait for the same process."""
    start = int(chunk.refs[0].file_sha256[:8], 16) % max(1, len(stacks)) if chunk.refs else 0
    return stacks[start:] + stacks[:start]


def _evaluate_stack(
    together: Sequence[LoadedCandidate],
    states: Sequence[EpisodeStates],
    company: Sequence[EpisodeStates],
    plan: EvaluationPlan,
) -> tuple[list[QCacheEntry], list[Failure]]:
    """Entries for `states`; `company` only fills up their batches."""
    everything = [*states, *company]
    wrong = {candidate.id: _find_wrong_task(candidate, everything) for candidate in together}
    failures = [Failure(name, reason) for name, reason in wrong.items() if reason]
    fitting = [candidate for candidate in together if not wrong[candidate.id]]
    if not fitting or not states:
        return [], failures
    answers: dict[str, np.ndarray] = {}
    if not plan.has_only_actions:
        answers, failed = ask_stack(fitting, everything)
        failures += failed
    entries: list[QCacheEntry] = []
    for candidate in fitting:
        if not plan.has_only_actions and candidate.id not in answers:
            continue
        try:
            if plan.has_only_actions:
                entries += _keep_actions(candidate, states)
            else:
                entries += _make_entries(candidate, answers[candidate.id], states, plan)
        except Exception as error:  # a candidate may raise anything, and the others must still be scored
            failures.append(Failure(candidate.id, describe_failure(error)))
    return entries, failures


def _find_wrong_task(candidate: LoadedCandidate, states: Iterable[EpisodeStates]) -> str:
    for state in states:
        if state.task != candidate.task:
            return (
                f"it is made for {candidate.task}, but episode {state.facts.id} is of {state.task}: "
                "score it on a store of its own task"
            )
    return ""


def _make_entries(
    candidate: LoadedCandidate, logged: np.ndarray, states: Sequence[EpisodeStates], plan: EvaluationPlan
) -> list[QCacheEntry]:
    entries = []
    start = 0
    for state in states:
        found = {LOGGED: logged[start : start + state.facts.steps]}
        start += state.facts.steps
        if plan.has_greedy:
            # The policy could also have taken the recorded action, so greedy is never below it.
            found[GREEDY] = np.maximum(_think_again(candidate, state)[1], found[LOGGED])
        key = (state.facts.id, state.facts.file_sha256)
        if key in plan.searched and not is_standard(candidate.policy.candidate.manifest):
            found[SEARCH] = measure_shortfall(candidate.policy, state, state.images[candidate.view])
        entries += [QCacheEntry(candidate.id, key, values, quantity) for quantity, values in found.items()]
    return entries


def _keep_actions(candidate: LoadedCandidate, states: Sequence[EpisodeStates]) -> list[QCacheEntry]:
    return [
        QCacheEntry(candidate.id, (one.facts.id, one.facts.file_sha256), _think_again(candidate, one)[0], ACTED)
        for one in states
    ]


def _think_again(candidate: LoadedCandidate, states: EpisodeStates) -> tuple[np.ndarray, np.ndarray]:
    """What the policy would have chosen at each step of this episode, (T, A), and its Q, (T,)."""
    seen = Observations(images=states.images[candidate.view], tools=states.tools)
    return candidate.policy.decide_each(seen, seed=states.seed)
