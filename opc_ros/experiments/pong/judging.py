"""Scores on one validation set against true success: how well they agree, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ConstantScores
from opc_ros.experiments.agreement_intervals import agree, noise_ceiling
from opc_ros.ranking import fit_line, spearman
from opc_ros.workflows.scoring_run import ScoringRun

METRICS = ("td_error", "sum_of_advantages", "mcc_error", "opc", "soft_opc")
BASELINES = METRICS[:3]
OVER_SPREAD = "soft_opc_over_spread"  # ours; the paper has no such score
SHOWN = (*METRICS, OVER_SPREAD)
_RESAMPLES = 500
_SEED = 41


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate's scores beside its true success."""

    id: str
    name: str
    variant: str
    step: int
    success: float  # share of points won
    scores: Mapping[str, float]  # by metric
    q_of_wins: float  # mean Q, with each episode counting once
    q_of_losses: float


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """How well one metric predicts true success."""

    r_squared: float
    spearman: float
    spearman_interval: tuple[float, float]  # the middle 95 % over resampled candidates


@dataclass(frozen=True, slots=True)
class LevelResult:
    """The results at one stickiness; a metric that scores all candidates alike has no agreement."""

    stickiness: float
    snapshot_id: str
    ranking_id: str
    episodes: int
    successes: int
    transitions: int
    points: int  # points behind each candidate's true success
    ceiling: float  # Spearman of true success with a repeated measurement over as many points
    candidates: tuple[JudgedCandidate, ...]
    agreement: Mapping[str, MetricAgreement | None]  # by metric


@dataclass(frozen=True, slots=True)
class MisrankedCheckpoint:
    """A candidate and its ranks, 1 the best, by success and by a score."""

    candidate: JudgedCandidate
    by_score: int
    by_success: int


def judge_level(stickiness: float, run: ScoringRun, wins: Mapping[str, int], points: int) -> LevelResult:
    """Combine the results of a scoring run with the points that each candidate, by id, has won."""
    judged = _judge_candidates(run, {candidate_id: won / points for candidate_id, won in wins.items()})
    success = np.array([one.success for one in judged])
    ranking = run.ranking
    return LevelResult(
        stickiness=stickiness,
        snapshot_id=ranking.snapshot_id,
        ranking_id=ranking.ranking_id,
        episodes=ranking.episodes,
        successes=ranking.successes,
        transitions=run.report.validation_set.transitions,
        points=points,
        ceiling=noise_ceiling(success, np.full(success.size, points), np.random.default_rng(_SEED)),
        candidates=judged,
        agreement={metric: _agree([one.scores[metric] for one in judged], success) for metric in SHOWN},
    )


def find_misranked(level: LevelResult, metric: str, count: int = 5) -> list[MisrankedCheckpoint]:
    """Candidates whose ranks differ most, worst first; ties share their mean rank."""
    by_score = _places([one.scores[metric] for one in level.candidates])
    by_success = _places([one.success for one in level.candidates])
    worst = np.argsort(-np.abs(by_score - by_success), kind="stable")[:count]
    return [
        MisrankedCheckpoint(level.candidates[index], round(by_score[index]), round(by_success[index]))
        for index in worst
    ]


def _judge_candidates(run: ScoringRun, success: Mapping[str, float]) -> tuple[JudgedCandidate, ...]:
    scored = run.scored
    begins = np.cumsum(scored.lengths) - scored.lengths
    means = np.add.reduceat(np.asarray(scored.q), begins, axis=1, dtype=np.float64) / scored.lengths
    row_of = {candidate.id: row for row, candidate in enumerate(scored.candidates)}
    rows = [row_of[candidate.candidate_id] for candidate in run.report.candidates]
    return tuple(
        JudgedCandidate(
            id=candidate.candidate_id,
            name=candidate.name,
            variant=candidate.family,
            step=candidate.step or 0,
            success=success[candidate.candidate_id],
            scores={name: candidate.metrics[name] for name in SHOWN},
            q_of_wins=float(means[row, scored.success].mean()),
            q_of_losses=float(means[row, ~scored.success].mean()),
        )
        for candidate, row in zip(run.report.candidates, rows, strict=True)
    )


def _agree(scores: Sequence[float], success: np.ndarray) -> MetricAgreement | None:
    try:
        r_squared, rank_correlation = fit_line(scores, success).r_squared, spearman(scores, success)
    except ConstantScores:
        return None
    drawn = np.random.default_rng(_SEED).integers(len(scores), size=(_RESAMPLES, len(scores)))
    values = np.asarray(scores)
    found = [agree(values[row], success[row])[1] for row in drawn if np.ptp(success[row])]
    low, high = np.quantile(found, (0.025, 0.975)).tolist()
    return MetricAgreement(r_squared, rank_correlation, (low, high))


def _places(values: Sequence[float]) -> np.ndarray:
    found = np.asarray(values)
    above = (found[None, :] > found[:, None]).sum(axis=1)
    alike = (found[None, :] == found[:, None]).sum(axis=1)
    return np.asarray(above + (alike + 1) / 2)
