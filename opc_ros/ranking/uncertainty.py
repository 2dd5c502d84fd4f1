"""What resampled scores (R resamples, C candidates) say about an order; candidates that tie share the doubt."""

from __future__ import annotations

import numpy as np

from opc_ros.errors import ScoreError


def rank_bounds(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best and worst rank each candidate can claim in each resample, both (R, C); they differ where scores tie."""
    better = np.empty(samples.shape, dtype=np.int64)
    no_worse = np.empty(samples.shape, dtype=np.int64)
    for index, column in enumerate(samples.T):
        better[:, index] = (samples > column[:, None]).sum(axis=1)
        no_worse[:, index] = (samples >= column[:, None]).sum(axis=1)
    return better + 1, no_worse


def rank_intervals(samples: np.ndarray, confidence: float) -> np.ndarray:
    """Ranks between which each candidate lies with this confidence, (C, 2); rounded outwards."""
    if not 0.0 < confidence < 1.0:
        raise ScoreError(f"confidence is {confidence}, expected between 0 and 1, such as 0.95")
    tail = (1 - confidence) / 2
    best, worst = rank_bounds(samples)
    lower = np.quantile(best, tail, axis=0, method="lower")
    upper = np.quantile(worst, 1 - tail, axis=0, method="higher")
    return np.column_stack([lower, upper]).astype(np.int64)


def top_k_probabilities(samples: np.ndarray, k: int) -> np.ndarray:
    """Share of resamples in which each candidate is among the k best, (C,); places tied for are shared evenly."""
    if not 1 <= k <= samples.shape[1]:
        raise ScoreError(f"k is {k}, expected 1 to {samples.shape[1]}, the number of candidates")
    best, worst = rank_bounds(samples)
    places = np.clip(k - best + 1, 0, worst - best + 1)
    return np.mean(places / (worst - best + 1), axis=0)


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
