"""What resampled scores (R resamples, C candidates) say about an order; candidates that tie share the uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ConstantScores, LengthMismatch, ScoreError
from opc_ros.ranking.agreement import spearman


@dataclass(frozen=True, slots=True)
class SplitStability:
    """How far two halves of the validation set agree about the order of candidates."""

    spearman_mean: float
    spearman_low: float  # 5 % of the splits agree less than this
    same_best: float  # share of splits whose halves name the same best candidate


def measure_stability(halves: np.ndarray) -> SplitStability:
    """Agreement over many splits; halves are scores as `split_scores` gives them, (S, 2, C).

    A half that scores all candidates alike says nothing about their order and counts as agreement 0.
    """
    if halves.ndim != 3 or halves.shape[1] != 2 or halves.shape[2] < 2:
        raise LengthMismatch(f"halves have shape {halves.shape}, expected (splits, 2, 2 or more candidates)")
    correlations = np.zeros(len(halves))
    for index, (first, second) in enumerate(halves):
        try:
            correlations[index] = spearman(first, second)
        except ConstantScores:
            continue
    best = halves == halves.max(axis=2, keepdims=True)  # (S, 2, C), more than one if they tie
    return SplitStability(
        spearman_mean=float(correlations.mean()),
        spearman_low=float(np.quantile(correlations, 0.05)),
        same_best=float(np.mean((best.sum(axis=2) == 1).all(axis=1) & (best[:, 0] & best[:, 1]).any(axis=1))),
    )


def rank_bounds(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best and worst rank each candidate can claim in each resample, both (R, C); they differ if scores tie."""
    better = np.empty(samples.shape, dtype=np.int64)
    no_worse = np.empty(samples.shape, dtype=np.int64)
    for index, column in enumerate(samples.T):
        better[:, index] = (samples > column[:, None]).sum(axis=1)
        no_worse[:, index] = (samples >= column[:, None]).sum(axis=1)
    return better + 1, no_worse


def rank_intervals(samples: np.ndarray, confidence: float) -> np.ndarray:
    """Confidence interval of each candidate's rank, (C, 2), rounded outwards."""
    if not 0.0 < confidence < 1.0:
        raise ScoreError(f"confidence is {confidence}, expected between 0 and 1, such as 0.95")
    tail = (1 - confidence) / 2
    best, worst = rank_bounds(samples)
    lower = np.quantile(best, tail, axis=0, method="lower")
    upper = np.quantile(worst, 1 - tail, axis=0, method="higher")
    return np.column_stack([lower, upper]).astype(np.int64)


def top_k_probabilities(samples: np.ndarray, k: int) -> np.ndarray:
    """Share of resamples in which each candidate is among the k best, (C,); tied places are shared evenly."""
    if not 1 <= k <= samples.shape[1]:
        raise ScoreError(f"k is {k}, expected 1 to {samples.shape[1]}, the number of candidates")
    best, worst = rank_bounds(samples)
    places = np.clip(k - best + 1, 0, worst - best + 1)
    return np.asarray(np.mean(places / (worst - best + 1), axis=0))


def beat_probabilities(samples: np.ndarray) -> np.ndarray:
    """Share of resamples in which candidate i scores above candidate j, (C, C); a tie is half a win for each."""
    candidates = samples.shape[1]
    beats = np.full((candidates, candidates), 0.5)
    for index, column in enumerate(samples.T):
        others = samples[:, index + 1 :]
        wins = np.mean(column[:, None] > others, axis=0) + np.mean(column[:, None] == others, axis=0) / 2
        beats[index, index + 1 :] = wins
        beats[index + 1 :, index] = 1 - wins
    return beats
