"""Uncertainty of scores: whole episodes are resampled together, jointly for all candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from opc_ros.errors import ScoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring.metrics import find_ranking_metric
from opc_ros.scoring.reweighting import Reweighter
from opc_ros.scoring.transitions import check_lengths, check_success
from opc_ros.scoring.value_rows import ValueRows

# Weights held in memory at once. The random numbers do not depend on it, because rows are drawn in whole batches.
_WEIGHTS_AT_ONCE = 8_000_000
_ROWS_DRAWN = 16
# Q values prepared at once: further candidates are scored in turn, on the same resamples drawn again.
_VALUES_AT_ONCE = 16_000_000

# With this many episodes, each gets an independent Poisson weight, with mean and variance 1 to within 0.03 %, instead
# of the total being fixed: scores depend on proportions only, so they vary the same, and drawing is cheaper.
_POISSON_FROM = 200_000
_DRAWN_AT_ONCE = 1 << 20
_POISSON_WEIGHTS_AT_ONCE = 4_000_000


def bootstrap_scores(
    q_by_candidate: ValueRows,
    lengths: ArrayLike,
    success: ArrayLike,
    *,
    metric: str = "opc",
    prior: float = 1.0,
    resamples: int = 2000,
    rng: np.random.Generator,
    own: np.ndarray | None = None,
    report: Report = ignore_progress,
) -> np.ndarray:
    """Scores of all candidates on resampled validation sets, (R, C).

    Each resample draws as many episodes as there are, whole and with replacement. It is the same for every candidate,
    so differences between candidates in one row are differences on one set.

    Args:
        q_by_candidate: for each of C candidates its Q value of each recorded transition, (N,).
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        metric: which score.
        prior: p(y=1).
        resamples: R.
        rng: the only source of randomness; the same state gives the same scores.
        own: which episodes do not count for which candidate, (C, E) bool.
        report: called with the number of resamples done.
    """
    if resamples < 1:
        raise ScoreError(f"resamples is {resamples}, expected at least 1")
    found = np.empty((resamples, len(q_by_candidate)))
    begun = rng.bit_generator.state
    at_once = candidates_at_once(lengths)
    for first in range(0, max(1, len(q_by_candidate)), at_once):
        some = slice(first, first + at_once)
        rng.bit_generator.state = begun
        reweighter = Reweighter(
            [q_by_candidate[index] for index in range(len(q_by_candidate))[some]],
            lengths,
            success,
            metric=metric,
            prior=prior,
            own=None if own is None else own[some],
            first=first,
        )
        done = first * resamples
        for start, scores in _score_resamples(reweighter, resamples, rng):
            found[start : start + len(scores), some] = scores
            count = min(len(q_by_candidate), first + at_once) - first
            done += len(scores) * count
            report(done // len(q_by_candidate), resamples, "resamples")
        del reweighter  # free it before the next is prepared
    return found


def candidates_at_once(lengths: ArrayLike) -> int:
    """How many candidates are prepared together on this set, so that memory does not grow with their number."""
    return max(1, _VALUES_AT_ONCE // check_lengths(lengths).transitions)


def weightings_at_once(episodes: int) -> int:
    """How many weightings of all episodes are held in memory at once."""
    return max(1, (_POISSON_WEIGHTS_AT_ONCE if episodes >= _POISSON_FROM else _WEIGHTS_AT_ONCE) // episodes)


def _score_resamples(
    reweighter: Reweighter, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[int, np.ndarray]]:
    """Batches of resamples: the index of the first, and the scores of all."""
    size = sum(reweighter.outcomes)
    at_once = (
        max(1, _POISSON_WEIGHTS_AT_ONCE // size)
        if size >= _POISSON_FROM
        else _ROWS_DRAWN * max(1, _WEIGHTS_AT_ONCE // (_ROWS_DRAWN * size))
    )
    for start in range(0, resamples, at_once):
        weights = draw_resamples(reweighter.outcomes, min(at_once, resamples - start), rng)
        yield start, reweighter.score_successes_first(weights)


def draw_resamples(outcomes: tuple[int, int], count: int, rng: np.random.Generator) -> np.ndarray:
    """How often each episode is drawn in each of several resamples, (count, E), successes first, then failures.

    Successes and failures are drawn together, because how many of each a set has is chance too: drawn separately, 95 %
    intervals of strong candidates would cover 70 to 80 %. A resample that lacks one of the two is drawn again.
    """
    size = sum(outcomes)
    if size >= _POISSON_FROM:
        return _draw_poisson(outcomes, count, rng)
    weights = np.empty((count, size))
    for first in range(0, count, _ROWS_DRAWN):
        rows = weights[first : first + _ROWS_DRAWN]
        is_lacking = np.ones(len(rows), dtype=np.bool_)
        while is_lacking.any():
            lacking = int(is_lacking.sum())
            drawn = rng.integers(size, size=(lacking, size)) + size * np.arange(lacking)[:, None]
            rows[is_lacking] = np.bincount(drawn.ravel(), minlength=lacking * size).reshape(lacking, size)
            successes = rows[:, : outcomes[0]].sum(axis=1)
            is_lacking = (successes == 0) | (successes == size)
    return weights


def _draw_poisson(outcomes: tuple[int, int], count: int, rng: np.random.Generator) -> np.ndarray:
    """Independent Poisson weights, drawn in pieces; the result does not depend on how many rows are drawn at once."""
    times = _poisson_table()
    weights = np.empty((count, sum(outcomes)))
    for row in weights:
        is_lacking = True
        while is_lacking:
            for first in range(0, row.size, _DRAWN_AT_ONCE):
                piece = row[first : first + _DRAWN_AT_ONCE]
                piece[:] = times[rng.integers(times.size, size=piece.size, dtype=np.uint16)]
            is_lacking = not (row[: outcomes[0]].any() and row[outcomes[0] :].any())
    return weights


@cache
def _poisson_table() -> np.ndarray:
    """Poisson numbers of mean 1, in 2^16 entries in proportion to their probability: two random bytes draw one."""
    likely = np.array([1 / (math.e * math.factorial(times)) for times in range(9)])
    often = np.rint(likely * (1 << 16)).astype(np.int64)
    often[1] += (1 << 16) - often.sum()
    return np.repeat(np.arange(9, dtype=np.float64), often)


def split_scores(
    q_by_candidate: ValueRows,
    lengths: ArrayLike,
    success: ArrayLike,
    *,
    metric: str = "opc",
    prior: float = 1.0,
    splits: int = 100,
    rng: np.random.Generator,
) -> np.ndarray:
    """Scores of all candidates on both halves of repeatedly halved validation sets, (S, 2, C).

    Each half holds half of the successes and half of the failures, whole episodes; if a number is odd the first half
    gets one more. If two halves disagree about the order, the set is too small for it.
    """
    if splits < 1:
        raise ScoreError(f"splits is {splits}, expected at least 1")
    is_success = check_success(success, check_lengths(lengths))
    strata = [np.flatnonzero(is_success), np.flatnonzero(~is_success)]
    if min(stratum.size for stratum in strata) < 2:
        raise ScoreError(
            f"{strata[0].size} successes and {strata[1].size} failures cannot be halved, expected at least 2 of each"
        )
    found = np.empty((splits, 2, len(q_by_candidate)))
    begun = rng.bit_generator.state
    at_once, rows = candidates_at_once(lengths), max(1, weightings_at_once(is_success.size) // 2)
    for first in range(0, max(1, len(q_by_candidate)), at_once):
        some = slice(first, first + at_once)
        rng.bit_generator.state = begun  # every candidate sees the same halves
        reweighter = Reweighter(
            [q_by_candidate[index] for index in range(len(q_by_candidate))[some]],
            lengths,
            success,
            metric=metric,
            prior=prior,
            first=first,
        )
        for start in range(0, splits, rows):
            halves = _draw_halves(strata, min(rows, splits - start), rng)  # (S, 2, E)
            scores = reweighter.score(halves.reshape(-1, is_success.size))
            found[start : start + len(halves), :, some] = scores.reshape(len(halves), 2, -1)
        del reweighter  # free it before the next is prepared
    return found


def _draw_halves(strata: Sequence[np.ndarray], splits: int, rng: np.random.Generator) -> np.ndarray:
    """Which episodes are in the first half and which in the second, (splits, 2, E)."""
    weights = np.zeros((splits, 2, sum(stratum.size for stratum in strata)))
    for first, second in weights:
        for stratum in strata:
            shuffled = rng.permutation(stratum)
            middle = (stratum.size + 1) // 2
            first[shuffled[:middle]] = 1
            second[shuffled[middle:]] = 1
    return weights


# The best of many thresholds overfits the noise. A resample has the set's noise and the same amount again, so it
# overfits by a factor of sqrt(2) more; the difference between the two is what can be observed.
_BIAS_SEEN = {"opc": float(np.sqrt(2.0) - 1.0)}


def score_bias(scores: np.ndarray, samples: np.ndarray, metric: str) -> np.ndarray:
    """By how much each score (C,) is expected to be too high, from its resampled values (R, C).

    Only a metric that takes the best of many thresholds is noticeably biased: for others, what resamples show is mostly
    chance and is ignored.
    """
    if metric not in _BIAS_SEEN:
        return np.zeros(scores.shape)
    return np.asarray(np.clip((samples.mean(axis=0) - scores) / _BIAS_SEEN[metric], 0.0, np.maximum(scores, 0.0)))


def score_intervals(
    scores: np.ndarray, samples: np.ndarray, confidence: float, metric: str, *, rarer: int = 0
) -> np.ndarray:
    """Lower and upper end for each score (C,), from its resampled values (R, C), as (C, 2).

    Quantiles are reflected at the bias-corrected score: if resamples lie above the score, the truth lies below it. The
    interval always contains the score and stays within the metric's bounds. With few episodes, resamples vary less than
    new sets would, so the interval is widened by Student's t; `rarer` is how many episodes had the rarer outcome, 0 if
    there are plenty.
    """
    if not 0.0 < confidence < 1.0:
        raise ScoreError(f"confidence is {confidence}, expected between 0 and 1, such as 0.95")
    tail = (1 - confidence) / 2
    about = samples.mean(axis=0) - np.quantile(samples, [1 - tail, tail], axis=0)
    if rarer > 1:
        about *= stdtrit(rarer - 1, 1 - tail) / ndtri(1 - tail) * np.sqrt(rarer / (rarer - 1))
    seen = samples.mean(axis=0) - scores
    # The bias is only estimated, so the upper end is lowered by no more than what resamples show.
    low, high = scores + about - np.stack([np.maximum(score_bias(scores, samples, metric), seen), seen])
    low, high = np.clip((low, high), *find_ranking_metric(metric).bounds)
    return np.column_stack([np.minimum(low, scores), np.maximum(high, scores)])
