"""Q values of some candidates on a few episodes: decode each frame once, ask every candidate about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.episode import Episode
from opc_ros.errors import CandidateError, OpcError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.loading import check_values, load_q_function, probe
from opc_ros.policies.policy import Policy, seed_of_recorded
from opc_ros.policies.q_function import Observations, QFunction, resize_image
from opc_ros.scoring.q_cache import GREEDY, LOGGED, EpisodeFacts, QCacheEntry
from opc_ros.scoring.source import EpisodeRef, EpisodeSource

LoadQFunction = Callable[[Candidate], QFunction]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A few episodes and the candidates whose values on them are missing."""

    refs: tuple[EpisodeRef, ...]
    candidate_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to compute in each state, beyond Q at the recorded action."""

    has_greedy: bool = False  # also Q at the action that the policy itself would have chosen
    episodes_per_pass: int = 1  # 1: a value never depends on which other episodes are scored, to the last bit

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
    q_function: QFunction
    policy: Policy
    image_size: tuple[int, int]


def load_candidates(
    candidates: Iterable[Candidate], load: LoadQFunction
) -> tuple[dict[str, LoadedCandidate], tuple[Failure, ...]]:
    """Load and probe each; those that cannot be loaded or cannot answer come back as failures."""
    loaded, failures = {}, []
    for candidate in candidates:
        spec = candidate.manifest.input
        try:
            q_function = load(candidate)
            probe(q_function, spec)
        except Exception as error:  # a candidate may raise anything, and the others are still to be scored
            failures.append(Failure(candidate.id, _reason(error)))
        else:
            loaded[candidate.id] = LoadedCandidate(
                candidate.id, q_function, Policy(candidate, q_function), spec.image_size
            )
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
    entries: list[QCacheEntry] = []
    failed_candidates = []
    for candidate in asked:
        try:
            entries += _evaluate_candidate(candidate, states, plan)
        except Exception as error:  # a candidate may raise anything, and the others are still to be scored
            failed_candidates.append(Failure(candidate.id, _reason(error)))
    return ChunkResult(
        chunk=chunk,
        entries=tuple(entries),
        facts=tuple(state.facts for state in states),
        failed_episodes=failed_episodes,
        failed_candidates=tuple(failed_candidates),
        frames=sum(state.facts.steps for state in states),
    )


@dataclass(frozen=True, slots=True)
class _EpisodeStates:
    facts: EpisodeFacts
    seed: int  # what is drawn when it is thought through again follows from it
    images: Mapping[tuple[int, int], np.ndarray]  # (T, H, W, 3) for each image size
    tools: np.ndarray  # (T, 5)
    actions: np.ndarray  # (T, 8)


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


def _decode(episode: Episode, ref: EpisodeRef, sizes: set[tuple[int, int]]) -> _EpisodeStates:
    images = {size: np.empty((len(episode.steps), *size, 3), dtype=np.uint8) for size in sizes}
    for index, step in enumerate(episode.steps):
        picture = step.frame.decode()
        for size, stack in images.items():
            stack[index] = resize_image(picture, size)
    return _EpisodeStates(
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
    candidate: LoadedCandidate, states: Sequence[_EpisodeStates], plan: EvaluationPlan
) -> list[QCacheEntry]:
    entries = []
    for start in range(0, len(states), plan.episodes_per_pass):
        batch = states[start : start + plan.episodes_per_pass]
        observations = Observations(
            images=_join([state.images[candidate.image_size] for state in batch]),
            tools=_join([state.tools for state in batch]),
        )
        actions = _join([state.actions for state in batch])
        try:
            found = {LOGGED: check_values(candidate.q_function.q(observations, actions), len(actions))}
            if plan.has_greedy:
                best = np.concatenate([_think_again(candidate, state) for state in batch])
                # The recorded action is one more the policy could take, so greedy is never below it.
                found[GREEDY] = np.maximum(best, found[LOGGED])
        except CandidateError as error:
            raise CandidateError(f"{error}, in episode {batch[0].facts.id}") from error
        cuts = np.cumsum([state.facts.steps for state in batch])[:-1]
        for quantity, values in found.items():
            entries += [
                QCacheEntry(candidate.id, (state.facts.id, state.facts.file_sha256), part, quantity)
                for state, part in zip(batch, np.split(values, cuts), strict=True)
            ]
    return entries


def _think_again(candidate: LoadedCandidate, states: _EpisodeStates) -> np.ndarray:
    """Q (T,) of what the policy would have chosen at each step, had it played this episode."""
    seen = Observations(images=states.images[candidate.image_size], tools=states.tools)
    _, values = candidate.policy.decide_each(seen, seed=states.seed)
    return values


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:400]
    return text if isinstance(error, OpcError) else f"raised {type(error).__name__}: {text}"


def default_loader(*, allow_code: bool) -> LoadQFunction:
    """Load as the product does, with or without permission for code."""

    def load(candidate: Candidate) -> QFunction:
        return load_q_function(candidate, allow_code=allow_code)

    return load
