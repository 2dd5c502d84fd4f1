"""Confidence intervals for a success rate that stay valid however often one looks at a running test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

BISECTIONS = 45  # leaves an error below 1e-13


def success_interval(
    successes: np.ndarray | int, trials: np.ndarray | int, *, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest success rate that the results so far leave possible, element by element.

    The chance that the true rate ever leaves the interval, at any number of trials, is at most 1 - confidence. An
    interval for a fixed sample size (Wilson, Clopper-Pearson) loses that guarantee once the results decide when to
    stop.

    For a rate p, M(p) = B(s + 1/2, f + 1/2) / B(1/2, 1/2) / (p^s (1 - p)^f) is the wealth of a gambler who bets against
    p with a Beta(1/2, 1/2) mixture of rates. If p is true, the wealth has mean 1 and reaches 1 / (1 - confidence) with
    probability at most 1 - confidence (Ville). The interval consists of the rates for which it has not.
    """
    s, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}, expected between 0 and 1")
    if np.any(s < 0) or np.any(s > n):
        raise ValueError("successes must lie between 0 and trials")
    ratio = s / np.maximum(n, 1)
    bound = -np.log1p(-confidence)
    low = np.where(s > 0, _crossing(s, n, np.zeros_like(ratio), ratio, bound), 0.0)
    high = np.where(s < n, _crossing(s, n, np.ones_like(ratio), ratio, bound), 1.0)
    return low, high


def is_provably_below(successes: int, trials: int, floor: float, *, confidence: float = 0.95) -> bool:
    """Whether the results rule out every success rate of `floor` or more."""
    if successes >= floor * trials:
        return False
    s, n = np.float64(successes), np.float64(trials)
    return bool(_log_mixture(s, n) - xlogy(s, floor) - xlog1py(n - s, -floor) >= -np.log1p(-confidence))


def least_floor(trials: int, *, confidence: float = 0.95) -> float:
    """The lowest floor, in whole percent, that failing in all of these trials would rule out; 1 if there is none."""
    for percent in range(1, 100):
        if is_provably_below(0, trials, percent / 100, confidence=confidence):
            return percent / 100
    return 1.0


def running_interval(outcomes: Sequence[bool], *, confidence: float = 0.95) -> tuple[float, float]:
    """The intersection of all intervals from the first trial to the last.

    All of them hold the true rate with the same guarantee, so their intersection does too. It is never wider than the
    last interval alone, and it never widens again.
    """
    if not outcomes:
        return 0.0, 1.0
    trials = np.arange(1, len(outcomes) + 1)
    lows, highs = success_interval(np.cumsum(outcomes), trials, confidence=confidence)
    low, high = float(lows.max()), float(highs.min())
    if low > high:  # happens with probability 1 - confidence at most; then report the last interval as it is
        return float(lows[-1]), float(highs[-1])
    return low, high


def _crossing(s: np.ndarray, n: np.ndarray, outside: np.ndarray, inside: np.ndarray, bound: float) -> np.ndarray:
    """Where log M crosses `bound` between a rejected and a possible rate; log M is convex, so it crosses once."""
    mixture = _log_mixture(s, n)
    for _ in range(BISECTIONS):
        middle = (outside + inside) / 2
        is_refuted = mixture - xlogy(s, middle) - xlog1py(n - s, -middle) >= bound
        outside = np.where(is_refuted, middle, outside)
        inside = np.where(is_refuted, inside, middle)
    return outside


def _log_mixture(s: np.ndarray | np.float64, n: np.ndarray | np.float64) -> np.ndarray:
    return np.asarray(betaln(s + 0.5, n - s + 0.5) - betaln(0.5, 0.5))
