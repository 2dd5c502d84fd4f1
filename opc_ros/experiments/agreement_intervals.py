"""R^2 and Spearman of five metrics with true success, with intervals over candidates and over episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ConstantScores
from opc_ros.ranking import fit_line, spearman
from opc_ros.scoring import Reweighter, bootstrap_scores, compute_metric, final_rewards, score_baselines

METRICS = ("td_error", "sum_of_advantages", "mcc_error", "opc", "soft_opc")
_OURS: tuple[str, ...] = ("opc", "soft_opc", "soft_opc_by_transition", "soft_opc_over_spread")
_BASELINE_RESAMPLES = 100  # each of them scores all candidates again
_SIZES = (10, 25, 50, 100, 200, 400, 800, 1600, 3200)
_DRAWS = 100

Interval = tuple[float, float]
Recorded = tuple[np.ndarray, np.ndarray, np.ndarray]  # q (C, N), lengths (E,), success (E,)
WithGreedy = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # q, q_greedy (C, N), lengths, success (E,)


@dataclass(frozen=True, slots=True)
class Figure:
    """How one metric agrees with true success; intervals hold 95 % of resamples."""

    r_squared: float
    spearman: float
    r_squared_over_candidates: Interval
    spearman_over_candidates: Interval
    r_squared_over_episodes: Interval
    spearman_over_episodes: Interval


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Spearman on random smaller parts of one validation set: mean and the middle 90 %, (S,) each."""

    name: str
    sizes: tuple[int, ...]
    mean: dict[str, np.ndarray]
    low: dict[str, np.ndarray]
    high: dict[str, np.ndarray]


def measure_figures(
    recorded: Recorded,
    with_greedy: WithGreedy | None,
    true_success: np.ndarray,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[dict[str, np.ndarray], dict[str, Figure]]:
    """Scores (C,) and figures by metric; the three baselines only if greedy values are given."""
    q, lengths, success = recorded
    scores: dict[str, np.ndarray] = {}
    samples: dict[str, np.ndarray] = {}
    if with_greedy is not None:
        scores |= _score_baselines(*with_greedy)
        samples |= _resample_baselines(*with_greedy, rng)
    for metric in _OURS:
        scores[metric] = np.array([compute_metric(metric, row, lengths, success) for row in q])
        samples[metric] = bootstrap_scores(list(q), lengths, success, metric=metric, resamples=resamples // 2, rng=rng)
    figures = {m: _figure(scores[m], samples[m], true_success, resamples, rng) for m in scores}
    return scores, figures


def agree(scores: np.ndarray, true_success: np.ndarray) -> tuple[float, float]:
    """R^2 and Spearman; 0 if all scores are equal and nothing is predicted."""
    try:
        return fit_line(scores, true_success).r_squared, spearman(scores, true_success)
    except ConstantScores:
        return 0.0, 0.0


def measure_size_curve(
    name: str,
    q: np.ndarray,
    lengths: np.ndarray,
    success: np.ndarray,
    true_success: np.ndarray,
    rng: np.random.Generator,
) -> SizeCurve:
    """Draw parts of every size without replacement; a part that lacks an outcome is drawn again."""
    sizes = (*(size for size in _SIZES if size < lengths.size), lengths.size)
    weights = [_draw_parts(success, size, rng) for size in sizes]
    mean: dict[str, np.ndarray] = {}
    low: dict[str, np.ndarray] = {}
    high: dict[str, np.ndarray] = {}
    metrics: tuple[str, ...] = ("opc", "soft_opc")
    for metric in metrics:
        reweighter = Reweighter(list(q), lengths, success, metric=metric)
        found = [[agree(row, true_success)[1] for row in reweighter.score(part)] for part in weights]
        mean[metric] = np.array([np.mean(values) for values in found])
        low[metric], high[metric] = np.array([np.quantile(values, (0.05, 0.95)) for values in found]).T
    return SizeCurve(name, sizes, mean, low, high)


def noise_ceiling(true_success: np.ndarray, trials: np.ndarray, rng: np.random.Generator) -> float:
    """Mean Spearman of true success with a repeated measurement over as many trials: the ceiling set by noise alone."""
    again = rng.binomial(trials, true_success, size=(500, true_success.size)) / trials
    return float(np.mean([agree(row, true_success)[1] for row in again]))


def _draw_parts(success: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Which episodes each draw contains, (draws, E) of 0 and 1."""
    if size == success.size:
        return np.ones((1, size))
    parts = np.zeros((_DRAWS, success.size))
    for part in parts:
        while not (part[success].any() and part[~success].any()):
            part[:] = 0.0
            part[rng.choice(success.size, size, replace=False)] = 1.0
    return parts


def _score_baselines(
    q: np.ndarray, q_greedy: np.ndarray, lengths: np.ndarray, success: np.ndarray
) -> dict[str, np.ndarray]:
    found = score_baselines(q.T, q_greedy.T, lengths, final_rewards(lengths, success))
    return {
        "td_error": found.td_error,
        "sum_of_advantages": found.sum_of_advantages,
        "mcc_error": found.mcc_error,
    }


def _resample_baselines(
    q: np.ndarray, q_greedy: np.ndarray, lengths: np.ndarray, success: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    starts = np.cumsum(lengths) - lengths
    rows = []
    for _ in range(_BASELINE_RESAMPLES):
        drawn = rng.integers(lengths.size, size=lengths.size)
        at = np.concatenate([np.arange(starts[e], starts[e] + lengths[e]) for e in drawn])
        rows.append(_score_baselines(q[:, at], q_greedy[:, at], lengths[drawn], success[drawn]))
    return {metric: np.array([row[metric] for row in rows]) for metric in rows[0]}


def _figure(
    scores: np.ndarray, samples: np.ndarray, true_success: np.ndarray, resamples: int, rng: np.random.Generator
) -> Figure:
    drawn = rng.integers(scores.size, size=(resamples, scores.size))
    over_candidates = np.array([agree(scores[row], true_success[row]) for row in drawn if np.ptp(true_success[row])])
    over_episodes = np.array([agree(row, true_success) for row in samples])
    r_squared, rank_correlation = agree(scores, true_success)
    return Figure(
        r_squared=r_squared,
        spearman=rank_correlation,
        r_squared_over_candidates=_middle(over_candidates[:, 0]),
        spearman_over_candidates=_middle(over_candidates[:, 1]),
        r_squared_over_episodes=_middle(over_episodes[:, 0]),
        spearman_over_episodes=_middle(over_episodes[:, 1]),
    )


def _middle(values: np.ndarray) -> Interval:
    low, high = np.quantile(values, (0.025, 0.975)).tolist()
    return low, high
