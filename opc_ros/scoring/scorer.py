"""Scores candidates on a set of episodes: computes what the Q cache lacks, and reads everything from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import EmptyValidationSet, ScoreError
from opc_ros.policies.answering import why_no_q
from opc_ros.policies.candidate import Candidate, find_change
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.evaluation import Chunk, ChunkResult, EvaluationPlan
from opc_ros.scoring.failure import Failure
from opc_ros.scoring.known_values import KnownValues
from opc_ros.scoring.metric import Asks
from opc_ros.scoring.own_episodes import find_own_episodes, find_too_few
from opc_ros.scoring.own_search import choose_searched
from opc_ros.scoring.q_cache import ACTED, GREEDY, LOGGED, EpisodeFacts, QCache
from opc_ros.scoring.search_look import SearchLook
from opc_ros.scoring.source import EpisodeRef, EpisodeSource
from opc_ros.scoring.value_rows import ValueRows

_EPISODES_PER_CHUNK = 32  # so that filling up the last batch costs little
_EPISODES_OF_LARGE_IMAGES = 16  # decoded, larger chunks of them would take too much memory
_LARGE_PIXELS = 160 * 160


@dataclass(frozen=True, slots=True)
class ScoredSet:
    """Q values of every candidate that could be scored on every episode that could be read."""

    snapshot_id: str
    candidates: tuple[Candidate, ...]
    refs: tuple[EpisodeRef, ...]
    facts: tuple[EpisodeFacts, ...]  # one for each ref
    lengths: np.ndarray  # (E,)
    success: np.ndarray  # (E,) bool
    q: ValueRows  # (C, N) float32, Q or what else was asked for, episodes concatenated
    q_greedy: ValueRows | None  # (C, N) float32, if asked for
    actions: ValueRows | None = None  # (C, N, A) float32, each candidate's own actions, if asked for instead of Q
    asks: Asks = "q"  # what `q` holds
    searches: tuple[SearchLook, ...] = ()  # one for each candidate
    own: np.ndarray | None = None  # (C, E) bool: played by the candidate or trained on, so not counted for it
    failed_candidates: tuple[Failure, ...] = ()
    failed_episodes: tuple[Failure, ...] = ()
    frames_decoded: int = 0
    pairs_cached: int = 0
    pairs_evaluated: int = 0

    @property
    def is_complete(self) -> bool:
        return not self.failed_candidates and not self.failed_episodes


def score_candidates(
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    q_cache: QCache,
    engine: Engine,
    *,
    has_greedy: bool = False,
    has_only_actions: bool = False,
    trained_on: Mapping[str, Collection[str]] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    report: Report = ignore_progress,
) -> ScoredSet:
    """Fill the gaps in the Q cache, then collect; `trained_on` names episodes that do not count, by candidate id.

    With `has_only_actions`, candidates are asked for their own actions instead of Q, which is then 0 throughout. An
    interrupted call keeps what it computed; the next one resumes.
    """
    _refuse_twins(candidates)
    if not source.refs:
        raise EmptyValidationSet(f"snapshot {source.snapshot_id[:12]}: has no episode, expected at least one")
    searched = frozenset() if has_only_actions else choose_searched(source.refs)  # there what it chose is judged itself
    plan = EvaluationPlan(has_greedy=has_greedy, has_only_actions=has_only_actions, searched=searched)
    without_q = {c.id: why_no_q(c.name) for c in candidates if c.manifest.is_policy and not has_only_actions}
    values = KnownValues(q_cache, candidates, plan, source.refs)
    present = np.array([values.find_present(candidate.id) for candidate in candidates])  # (C, E) bool
    lacking = [
        candidate
        for candidate, row in zip(candidates, present, strict=True)
        if not row.all() and candidate.id not in without_q
    ]
    run = _Run(source.refs, candidates, present, report)
    run.failed_candidates |= without_q
    if lacking:
        # If the loop is left early, closing ends the engine's workers at once.
        with closing(engine.run(source, lacking, run.chunks(is_cancelled), plan)) as results:
            for result in results:
                q_cache.append(result.entries, result.facts)
                values.add(result)
                run.note(result)
    if is_cancelled():
        raise ScoreError("scoring was cancelled; what was computed is kept")
    run.failed_candidates |= _find_changed(candidates)
    return _collect(source, candidates, values, plan, run, trained_on or {})


class _Run:
    """Which values are missing, what has failed, and how far the work has got."""

    def __init__(
        self, refs: Sequence[EpisodeRef], candidates: Sequence[Candidate], present: np.ndarray, report: Report
    ) -> None:
        self._refs = refs
        self._ids = [candidate.id for candidate in candidates]
        largest = max(math.prod(candidate.manifest.input.image_size) for candidate in candidates)
        self._per_chunk = _EPISODES_PER_CHUNK if largest <= _LARGE_PIXELS else _EPISODES_OF_LARGE_IMAGES
        self._present = present  # (C, E) bool
        self._report = report
        self.total = present.size
        self.cached = int(present.sum())
        self.evaluated = 0
        self.frames = 0
        self.failed_candidates: dict[str, str] = {}
        self.failed_episodes: dict[str, str] = {}
        self._tell()

    def chunks(self, is_cancelled: Callable[[], bool]) -> Iterator[Chunk]:
        """Runs of episodes that lack the same candidates, a few at a time; a failed candidate is not asked again."""
        missing = np.flatnonzero(~self._present.all(axis=0))
        start = 0
        while start < len(missing) and not is_cancelled():
            lacking = self._present[:, missing[start]]
            stop = start + 1
            while stop < min(len(missing), start + self._per_chunk) and np.array_equal(
                self._present[:, missing[stop]], lacking
            ):
                stop += 1
            asked = [name for name, is_present in zip(self._ids, lacking, strict=True) if not is_present]
            asked = [name for name in asked if name not in self.failed_candidates]
            if asked:
                yield Chunk(tuple(self._refs[index] for index in missing[start:stop]), tuple(asked))
            start = stop

    def note(self, result: ChunkResult) -> None:
        for failure in result.failed_candidates:
            self.failed_candidates.setdefault(failure.id, failure.reason)
        self.failed_episodes |= {failure.id: failure.reason for failure in result.failed_episodes}
        self.frames += result.frames
        self.evaluated += len(result.chunk.refs) * len(result.chunk.candidate_ids)
        self._tell()

    def _tell(self) -> None:
        note = f"{self.frames:,} frames decoded, {self.evaluated:,} evaluated, {self.cached:,} cached"
        self._report(self.cached + self.evaluated, self.total, note)


def _refuse_twins(candidates: Sequence[Candidate]) -> None:
    if not candidates:
        raise ScoreError("no candidate is given, expected at least one")
    seen: dict[str, Candidate] = {}
    for candidate in candidates:
        if candidate.id in seen:
            raise ScoreError(
                f"candidate {candidate.name}: given twice ({seen[candidate.id].folder}, {candidate.folder})"
            )
        seen[candidate.id] = candidate


def _find_changed(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Candidates whose files are no longer those that were scored, so that their rank cannot be trusted."""
    changes = {candidate.id: find_change(candidate) for candidate in candidates}
    return {name: f"its files changed while it was scored: {change}" for name, change in changes.items() if change}


def _collect(
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    values: KnownValues,
    plan: EvaluationPlan,
    run: _Run,
    trained_on: Mapping[str, Collection[str]],
) -> ScoredSet:
    kept = [candidate for candidate in candidates if candidate.id not in run.failed_candidates]
    refs = tuple(ref for ref in source.refs if ref.id not in run.failed_episodes)
    if not refs:
        raise ScoreError(f"none of {len(source.refs)} episodes can be read: {next(iter(run.failed_episodes.values()))}")
    if not kept:
        refs = ()  # no candidate was evaluated, so no episode was read
    facts = values.keep(refs)
    success = np.array([ref.is_success for ref in refs], dtype=bool)
    own = find_own_episodes(kept, facts, trained_on)
    too_few = {candidate.id: find_too_few(row, success) for candidate, row in zip(kept, own, strict=True)}
    run.failed_candidates |= {name: reason for name, reason in too_few.items() if reason}
    is_kept = [not too_few[candidate.id] for candidate in kept]
    kept = [candidate for candidate in kept if not too_few[candidate.id]]
    return ScoredSet(
        snapshot_id=source.snapshot_id,
        candidates=tuple(kept),
        refs=refs,
        facts=facts,
        lengths=np.array([fact.steps for fact in facts], dtype=np.int64),
        success=success,
        own=own[is_kept],
        q=_nothing(kept, facts) if plan.has_only_actions else values.join(kept, LOGGED),
        q_greedy=values.join(kept, GREEDY) if plan.has_greedy else None,
        actions=values.join(kept, ACTED) if plan.has_only_actions and kept else None,
        searches=() if plan.has_only_actions else tuple(values.look_at_search(candidate) for candidate in kept),
        failed_candidates=_named(run.failed_candidates),
        failed_episodes=_named(run.failed_episodes),
        frames_decoded=run.frames,
        pairs_cached=run.cached,
        pairs_evaluated=run.evaluated,
    )


def _nothing(candidates: Sequence[Candidate], facts: Sequence[EpisodeFacts]) -> np.ndarray:
    return np.zeros((len(candidates), sum(fact.steps for fact in facts)), dtype=np.float32)


def _named(failures: Mapping[str, str]) -> tuple[Failure, ...]:
    return tuple(Failure(name, reason) for name, reason in sorted(failures.items()))
