"""Q values of some candidates on a few episodes: decode each frame once, ask every candidate about it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.episode import Episode
from opc_ros.errors import CandidateError, OpcError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.check import find_dependence
from opc_ros.policies.policy import Policy, seed_of_recorded
from opc_ros.policies.q_function import Observations, resize_image
from opc_ros.policies.worker.loader import scoring_device
from opc_ros.scoring.mixed_batches import COMPANY, mix_rows, rows_of_a_batch
from opc_ros.scoring.q_cache import GREEDY, LOGGED, EpisodeFacts, QCacheEntry
from opc_ros.scoring.source import EpisodeRef, EpisodeSource

LoadPolicy = Callable[[Candidate], Policy]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A few episodes and the candidates whose values on them are missing."""

    refs: tuple[EpisodeRef, ...]
    candidate_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to compute in each state, beyond Q at the recorded action."""

    has_greedy: bool = False  # also Q at the action that the policy itself would have chosen

    @property
    def quantities(self) -> tuple[str, ...]:
        return (LOGGED, GREEDY) if self.has_greedy else (LOGGED,)


@dataclass(frozen=True, slots=True)
class Failure:
    """A candidate or an episode that is left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What became of one chunk."""

    chunk: Chunk
    entries: tuple[QCacheEntry, ...] = ()
    facts: tuple[EpisodeFacts, ...] = ()
    failed_episodes: tuple[Failure, ...] = ()
    failed_candidates: tuple[Failure, ...] = ()
    frames: int = 0  # decoded


@dataclass(frozen=True, slots=True)
class LoadedCandidate:
    """A candidate ready to be asked."""

    id: str
    policy: Policy
    image_size: tuple[int, int]
    task: str


def load_candidates(
    candidates: Iterable[Candidate], load: LoadPolicy
) -> tuple[dict[str, LoadedCandidate], tuple[Failure, ...]]:
    """Load each; those that cannot be loaded or cannot answer come back as failures."""
    loaded, failures = {}, []
    for candidate in candidates:
        try:
            policy = load(candidate)
        except Exception as error:  # a candidate may raise anything, and the others are still to be scored
            failures.append(Failure(candidate.id, _reason(error)))
        else:
            manifest = candidate.manifest
            loaded[candidate.id] = LoadedCandidate(candidate.id, policy, manifest.input.image_size, manifest.task)
    return loaded, tuple(failures)


def evaluate_chunk(
    source: EpisodeSource,
    chunk: Chunk,
    candidates: Mapping[str, LoadedCandidate],
    plan: EvaluationPlan,
) -> ChunkResult:
    """Read, decode and evaluate one chunk; whatever fails is named, and the rest is still computed."""
    asked = [candidates[candidate_id] for candidate_id in chunk.candidate_ids if candidate_id in candidates]
    sizes = {candidate.image_size for candidate in asked}
    states, failed_episodes = _read_states(source, chunk.refs, sizes)
    company = _read_company(source, chunk.refs, sizes) if states else []
    entries: list[QCacheEntry] = []
    failed_candidates = []
    for candidate in asked:
        try:
            _check_task(candidate, [*states, *company])
            entries += _evaluate_candidate(candidate, states, company, plan)
        except Exception as error:  # a candidate may raise anything, and the others are still to be scored
            failed_candidates.append(Failure(candidate.id, _reason(error)))
    return ChunkResult(
        chunk=chunk,
        entries=tuple(entries),
        facts=tuple(state.facts for state in states),
        failed_episodes=failed_episodes,
        failed_candidates=tuple(failed_candidates),
        frames=sum(state.facts.steps for state in (*states, *company)),
    )


@dataclass(frozen=True, slots=True)
class _EpisodeStates:
    facts: EpisodeFacts
    task: str
    seed: int  # what is drawn when it is thought through again follows from it
    images: Mapping[tuple[int, int], np.ndarray]  # (T, H, W, 3) for each image size
    tools: np.ndarray  # (T, 5)
    actions: np.ndarray  # (T, 8)


def _check_task(candidate: LoadedCandidate, states: Iterable[_EpisodeStates]) -> None:
    for state in states:
        if state.task != candidate.task:
            raise CandidateError(
                f"it is made for {candidate.task}, but episode {state.facts.id} is of {state.task}: "
                "score it on a store of its own task"
            )


def _read_states(
    source: EpisodeSource, refs: Sequence[EpisodeRef], sizes: set[tuple[int, int]]
) -> tuple[list[_EpisodeStates], tuple[Failure, ...]]:
    states, failures = [], []
    for ref in refs:
        try:
            states.append(_decode(source.read(ref), ref, sizes))
        except Exception as error:  # damaged bytes may raise anything, and the others are still to be scored
            failures.append(Failure(ref.id, _reason(error)))
    return states, tuple(failures)


def _read_company(
    source: EpisodeSource, refs: Sequence[EpisodeRef], sizes: set[tuple[int, int]]
) -> list[_EpisodeStates]:
    """Other episodes of the set, where too few are to be scored for anybody to hide among."""
    missing = COMPANY - len(refs)
    if missing <= 0:
        return []
    asked = {ref.id for ref in refs}
    # Which ones follows from the first episode asked about, so that nobody meets the same company every time.
    others = sorted(
        (ref for ref in source.refs if ref.id not in asked),
        key=lambda ref: hashlib.sha256(f"{refs[0].file_sha256} {ref.file_sha256}".encode()).digest(),
    )
    return _read_states(source, others[:missing], sizes)[0]


def _decode(episode: Episode, ref: EpisodeRef, sizes: set[tuple[int, int]]) -> _EpisodeStates:
    images = {size: np.empty((len(episode.steps), *size, 3), dtype=np.uint8) for size in sizes}
    for index, step in enumerate(episode.steps):
        picture = step.frame.decode()
        for size, stack in images.items():
            stack[index] = resize_image(picture, size)
    return _EpisodeStates(
        task=episode.task,
        facts=EpisodeFacts(
            id=ref.id,
            file_sha256=ref.file_sha256,
            steps=len(episode.steps),
            robot=episode.robot,
            behaviour_policy=episode.behaviour_policy,
            object_set=episode.object_set,
            started_ns=episode.started_ns,
        ),
        seed=seed_of_recorded(episode.id, episode.seed),
        images=images,
        tools=episode.states(),
        actions=episode.actions(),
    )


def _evaluate_candidate(
    candidate: LoadedCandidate,
    states: Sequence[_EpisodeStates],
    company: Sequence[_EpisodeStates],
    plan: EvaluationPlan,
) -> list[QCacheEntry]:
    """Entries for `states`; `company` only shares their batches."""
    logged = _ask_in_mixed_batches(candidate, [*states, *company])
    entries = []
    start = 0
    for state in states:
        found = {LOGGED: logged[start : start + state.facts.steps]}
        start += state.facts.steps
        if plan.has_greedy:
            # The recorded action is one more the policy could take, so greedy is never below it.
            found[GREEDY] = np.maximum(_think_again(candidate, state), found[LOGGED])
        key = (state.facts.id, state.facts.file_sha256)
        entries += [QCacheEntry(candidate.id, key, values, quantity) for quantity, values in found.items()]
    return entries


def _ask_in_mixed_batches(candidate: LoadedCandidate, states: Sequence[_EpisodeStates]) -> np.ndarray:
    """Q at the recorded action of every step, (N,), episodes one behind the other."""
    everything = Observations(
        images=np.concatenate([state.images[candidate.image_size] for state in states]),
        tools=np.concatenate([state.tools for state in states]),
    )
    actions = np.concatenate([state.actions for state in states])

    def ask(rows: np.ndarray) -> np.ndarray:
        asked = Observations(images=everything.images[rows], tools=everything.tools[rows])
        return candidate.policy.q(asked, actions[rows])

    values = np.empty(len(actions), dtype=np.float32)
    mixed = mix_rows(
        [state.facts.steps for state in states],
        [state.facts.file_sha256 for state in states],
        rows_of_a_batch(candidate.image_size, scoring_device()),
    )
    for rows in mixed:
        values[rows] = ask(rows)
    one = mixed[0][:1]
    if complaint := find_dependence(values, one, ask(one)):
        raise CandidateError(complaint)
    return values


def _think_again(candidate: LoadedCandidate, states: _EpisodeStates) -> np.ndarray:
    """Q (T,) of what the policy would have chosen at each step, had it played this episode."""
    seen = Observations(images=states.images[candidate.image_size], tools=states.tools)
    _, values = candidate.policy.decide_each(seen, seed=states.seed)
    return values


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:400]
    return text if isinstance(error, OpcError) else f"raised {type(error).__name__}: {text}"
