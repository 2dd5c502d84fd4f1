"""The paper's grasping experiment: how well scores on recorded episodes predict many candidates' true success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.agreement_intervals import (
    METRICS,
    Figure,
    SizeCurve,
    measure_figures,
    measure_size_curve,
    noise_ceiling,
)
from opc_ros.experiments.validation_sets import MIXED, SCRIPTED, Budget, Part, ValidationSet
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import Store
from sim_bridge.training.true_success import TrueSuccess

# (R^2, Spearman) from the paper's table, in the order of METRICS.
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "train": dict(zip(METRICS, ((0.02, -0.37), (0.74, 0.81), (0.00, 0.33), (0.49, 0.86), (0.55, 0.76)), strict=True)),
    "test": dict(zip(METRICS, ((0.10, -0.51), (0.74, 0.78), (0.06, -0.44), (0.35, 0.66), (0.48, 0.77)), strict=True)),
    "pseudo_real": dict(
        zip(METRICS, ((0.17, 0.48), (0.12, 0.50), (0.01, -0.15), (0.81, 0.87), (0.91, 0.94)), strict=True)
    ),
}


@dataclass(frozen=True, slots=True)
class PartCount:
    """How many episodes one policy played for the mixed set, and how many succeeded."""

    label: str
    is_learned: bool
    episodes: int
    successes: int


@dataclass(frozen=True, slots=True)
class SetResult:
    """Every metric's scores on one validation set, (C,) each, and how they agree with the truth."""

    name: str
    episodes: int
    successes: int
    transitions: int
    episodes_with_greedy: int  # used by the three baselines
    scores: dict[str, np.ndarray]
    figures: dict[str, Figure]
    q_of_successes: np.ndarray  # mean Q, with each episode counting once
    q_of_failures: np.ndarray


@dataclass(frozen=True, slots=True)
class WorldResult:
    """One column of the paper's table."""

    world: str
    snapshot_id: str
    candidates: tuple[Candidate, ...]
    success: np.ndarray  # (C,) true share
    trials: tuple[int, int]  # fewest and most trials of any candidate
    ceiling: float
    sets: tuple[SetResult, ...]
    size_curves: tuple[SizeCurve, ...]
    parts: tuple[PartCount, ...]
    left_out: tuple[str, ...]  # candidates without enough trials, or that could not be scored

    def find(self, name: str) -> SetResult:
        """The validation set of that name."""
        return next(result for result in self.sets if result.name == name)


@dataclass(frozen=True, slots=True)
class Misranked:
    """A candidate whose rank by score is far from its rank by true success; 1 is the best."""

    name: str
    by_score: int
    by_success: int
    success: float
    score: float
    q_of_successes: float
    q_of_failures: float


def run_world(
    world: str,
    store: Store,
    sets: Sequence[ValidationSet],
    candidates: Sequence[Candidate],
    true_success: dict[tuple[str, str], TrueSuccess],
    q_cache: QCache,
    engine: Engine,
    *,
    budget: Budget,
    least_trials: int = 200,
    resamples: int = 1000,
    seed: int = 0,
    report: Report = ignore_progress,
) -> WorldResult:
    """Score every candidate of known success on all sets of one world, and compare."""
    known = [c for c in candidates if (c.id, world) in true_success]
    chosen = [c for c in known if true_success[c.id, world].episodes >= least_trials]
    if len(chosen) < 3:
        raise ScoreError(
            f"{world}: {len(chosen)} of {len(candidates)} candidates have {least_trials} trials or more, expected 3 or "
            "more; `opc evaluate` plays them"
        )
    scored, with_greedy = _score(store, sets, chosen, q_cache, engine, budget, report)
    left_out = {c.name for c in candidates} - {c.name for c in scored.candidates}
    if scored.candidates != with_greedy.candidates:
        raise ScoreError(f"{world}: a candidate failed in the second pass only; run again")
    success = np.array([true_success[c.id, world].share for c in scored.candidates])
    trials = np.array([true_success[c.id, world].episodes for c in scored.candidates])
    rng = np.random.default_rng(seed)
    results = [_measure_set(each, scored, with_greedy, success, resamples, rng) for each in sets]
    curves = [
        measure_size_curve(each.name, *_choose(scored, each), success, rng)
        for each in sets
        if each.name in (MIXED, SCRIPTED)
    ]
    return WorldResult(
        world=world,
        snapshot_id=scored.snapshot_id,
        candidates=scored.candidates,
        success=success,
        trials=(int(trials.min()), int(trials.max())),
        ceiling=noise_ceiling(success, trials, rng),
        sets=tuple(results),
        size_curves=tuple(curves),
        parts=tuple(_count_part(part, scored) for part in sets[0].parts),
        left_out=tuple(sorted(left_out)),
    )


def find_misranked(world: WorldResult, name: str, metric: str = "soft_opc", count: int = 5) -> list[Misranked]:
    """The candidates whose ranks differ most, worst first."""
    result = world.find(name)
    by_score = _places(result.scores[metric])
    by_success = _places(world.success)
    worst = np.argsort(-np.abs(by_score - by_success), kind="stable")[:count]
    return [
        Misranked(
            name=world.candidates[index].name,
            by_score=int(by_score[index]),
            by_success=int(by_success[index]),
            success=float(world.success[index]),
            score=float(result.scores[metric][index]),
            q_of_successes=float(result.q_of_successes[index]),
            q_of_failures=float(result.q_of_failures[index]),
        )
        for index in worst
    ]


def training_runs(world: WorldResult, least: int = 3) -> dict[str, np.ndarray]:
    """Indices of each training run's checkpoints among the candidates, by step, for runs with several."""
    runs: dict[str, list[int]] = {}
    for index, candidate in enumerate(world.candidates):
        if candidate.manifest.provenance.training_run:
            runs.setdefault(candidate.manifest.provenance.training_run, []).append(index)
    steps = [candidate.manifest.provenance.step or 0 for candidate in world.candidates]
    return {
        run: np.array(sorted(found, key=lambda index: steps[index]))
        for run, found in sorted(runs.items())
        if len(found) >= least
    }


def _score(
    store: Store,
    sets: Sequence[ValidationSet],
    candidates: Sequence[Candidate],
    q_cache: QCache,
    engine: Engine,
    budget: Budget,
    report: Report,
) -> tuple[ScoredSet, ScoredSet]:
    """All episodes at the recorded actions, and some of them at the greedy ones as well."""
    snapshot = store.take_snapshot()
    wanted = frozenset().union(*(each.episode_ids for each in sets))
    entries = [entry for entry in snapshot.entries if entry.episode_id in wanted]
    mixed = [entry for entry in entries if entry.episode_id in sets[0].episode_ids]
    some = mixed[:: max(1, len(mixed) // budget.with_greedy)]
    scored = score_candidates(
        SnapshotSource(snapshot.id, entries, store.read_entry), candidates, q_cache, engine, report=report
    )
    with_greedy = score_candidates(
        SnapshotSource(snapshot.id, some, store.read_entry),
        scored.candidates,
        q_cache,
        engine,
        has_greedy=True,
        report=report,
    )
    return scored, with_greedy


def _count_part(part: Part, scored: ScoredSet) -> PartCount:
    ids = set(part.episode_ids())
    outcomes = [ref.is_success for ref in scored.refs if ref.id in ids]
    return PartCount(part.label, part.is_learned, len(outcomes), sum(outcomes))


def _choose(scored: ScoredSet, chosen: ValidationSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q values (C, n), lengths and outcomes of the episodes that belong to a set."""
    is_in = np.array([ref.id in chosen.episode_ids for ref in scored.refs])
    return scored.q[:, np.repeat(is_in, scored.lengths)], scored.lengths[is_in], scored.success[is_in]


def _measure_set(
    chosen: ValidationSet,
    scored: ScoredSet,
    with_greedy: ScoredSet,
    true_success: np.ndarray,
    resamples: int,
    rng: np.random.Generator,
) -> SetResult:
    q, lengths, success = _choose(scored, chosen)
    baseline_q, baseline_lengths, baseline_success = _choose(with_greedy, chosen)
    is_in = np.array([ref.id in chosen.episode_ids for ref in with_greedy.refs])
    assert with_greedy.q_greedy is not None
    greedy = with_greedy.q_greedy[:, np.repeat(is_in, with_greedy.lengths)]
    scores, figures = measure_figures(
        (q, lengths, success),
        (baseline_q, greedy, baseline_lengths, baseline_success) if is_in.sum() > 1 else None,
        true_success,
        resamples,
        rng,
    )
    means = np.add.reduceat(q, np.cumsum(lengths) - lengths, axis=1) / lengths
    return SetResult(
        name=chosen.name,
        episodes=lengths.size,
        successes=int(success.sum()),
        transitions=int(lengths.sum()),
        episodes_with_greedy=int(is_in.sum()),
        scores=scores,
        figures=figures,
        q_of_successes=means[:, success].mean(axis=1),
        q_of_failures=means[:, ~success].mean(axis=1),
    )


def _places(values: np.ndarray) -> np.ndarray:
    """1 for the largest; equal values in the order given."""
    places = np.empty(values.size, dtype=np.int64)
    places[np.argsort(-values, kind="stable")] = np.arange(1, values.size + 1)
    return places
