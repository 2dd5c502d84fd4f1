"""Scores of many candidates under many weightings of the same episodes, each candidate's Q values sorted only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import LengthMismatch, ScoreError
from opc_ros.scoring.metrics import MetricName, check_metric, least_spread
from opc_ros.scoring.transitions import (
    Episodes,
    check_finite,
    check_lengths,
    check_prior,
    check_success,
    check_values,
)

# Stretches of the sorted transitions that a matrix product looks at as a whole, before any is walked through.
_STRETCHES = 64


class Reweighter:
    """Candidates on one validation set, ready to be scored under any weights of its episodes."""

    def __init__(
        self,
        q_by_candidate: Sequence[ArrayLike],
        lengths: ArrayLike,
        success: ArrayLike,
        *,
        metric: MetricName = "opc",
        prior: float = 1.0,
    ) -> None:
        """Check everything once; for OPC also sort each candidate's Q values once."""
        check_metric(metric)
        self._prior = check_prior(prior)
        self._metric = metric
        episodes = check_lengths(lengths)
        is_success = check_success(success, episodes)
        if not len(q_by_candidate):
            raise ScoreError("no candidate to score, expected at least one")
        values = [_check_q(q, index, episodes) for index, q in enumerate(q_by_candidate)]
        # From here on episodes are counted with successes first, so that each outcome is one slice of every array.
        self._order = np.argsort(~is_success, kind="stable")
        self._lengths = episodes.lengths[self._order].astype(np.float64)
        self._successes = int(is_success.sum())
        if metric == "opc":
            row_of_episode = np.argsort(self._order).astype(np.int32)
            self._sorted = [_sort_candidate(q, episodes.spread(row_of_episode), self._successes) for q in values]
        else:
            self._sums = np.stack([episodes.sum_each(q)[self._order] for q in values], axis=1)  # (E, C)
        if metric == "soft_opc_over_spread":
            # Around each candidate's mean, so that squares of large values do not drown what sets them apart.
            centred = [q.astype(np.float64) - q.mean(dtype=np.float64) for q in values]
            self._offsets = np.stack([episodes.sum_each(q)[self._order] for q in centred], axis=1)  # (E, C)
            self._squares = np.stack([episodes.sum_each(q * q)[self._order] for q in centred], axis=1)
            self._least_spread = np.array([least_spread(q) for q in values])

    @property
    def outcomes(self) -> tuple[int, int]:
        """How many successes and how many failures the set holds."""
        return self._successes, self._lengths.size - self._successes

    def score(self, weights: np.ndarray) -> np.ndarray:
        """Score of every candidate, (R, C), where episode e counts weights[r, e] times; weights are (R, E)."""
        if weights.ndim != 2 or weights.shape[1] != self._lengths.size:
            raise LengthMismatch(f"weights have shape {weights.shape}, expected (any, {self._lengths.size})")
        return self.score_successes_first(weights[:, self._order])

    def score_successes_first(self, weights: np.ndarray) -> np.ndarray:
        """The same for weights whose columns are all successes, then all failures, each in their order."""
        if self._metric == "opc":
            return self._score_opc(weights)
        scores = self._score_soft(weights)
        return scores if self._metric != "soft_opc_over_spread" else self._divide_by_spread(scores, weights)

    def _score_soft(self, weights: np.ndarray) -> np.ndarray:
        is_by_episode = self._metric != "soft_opc_by_transition"
        sums = self._sums / self._lengths[:, None] if is_by_episode else self._sums
        # One more column for what the sums are divided by.
        columns = np.column_stack([sums, np.ones_like(self._lengths) if is_by_episode else self._lengths])
        positive = weights[:, : self._successes] @ columns[: self._successes]
        everything = positive + weights[:, self._successes :] @ columns[self._successes :]
        _check_both_outcomes(positive[:, -1], everything[:, -1])
        return self._prior * positive[:, :-1] / positive[:, -1:] - everything[:, :-1] / everything[:, -1:]

    def _divide_by_spread(self, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = (weights @ self._lengths)[:, None]
        variance = weights @ self._squares / total - (weights @ self._offsets / total) ** 2
        spread = np.sqrt(np.maximum(variance, 0.0))
        return np.divide(scores, spread, out=np.zeros_like(scores), where=spread > self._least_spread)

    def _score_opc(self, weights: np.ndarray) -> np.ndarray:
        positive_total = weights[:, : self._successes] @ self._lengths[: self._successes]  # (R,)
        total = weights @ self._lengths
        _check_both_outcomes(positive_total, total)
        gain = np.maximum(0.0, self._prior / positive_total - 1 / total)
        # Sums of whole weights are exact in single precision up to 2^24, and twice as fast.
        is_small = bool((weights == np.rint(weights)).all() and total.max() < 2**24)
        by_episode = np.ascontiguousarray(weights.T, dtype=np.float32 if is_small else np.float64)
        margins = _Margins(by_episode, self._successes, gain, 1 / total)
        return np.stack([candidate.best_margins(margins) for candidate in self._sorted], axis=1)


def _check_q(q: ArrayLike, index: int, episodes: Episodes) -> np.ndarray:
    name = f"q of candidate {index}"
    values = check_values(q, episodes, name)
    check_finite(values, episodes, name)
    return values


def _check_both_outcomes(positive_total: np.ndarray, total: np.ndarray) -> None:
    for name, has_it in (("success", positive_total > 0), ("failure", total > positive_total)):
        if not has_it.all():
            raise ScoreError(f"row {int(np.argmin(has_it))} of weights leaves no {name}, expected one of each outcome")


class _Margins:
    """What transitions add to the margin under each weighting: weight times gain, or minus weight times loss."""

    def __init__(self, weights: np.ndarray, successes: int, gain: np.ndarray, loss: np.ndarray) -> None:
        self.weights = weights  # (E, R), successes first
        self.successes = successes
        self.gain = gain  # (R,)
        self.loss = loss  # (R,)
        steps = weights.astype(np.float64)
        steps[:successes] *= gain
        steps[successes:] *= -loss
        self.steps = list(steps)  # E of (R,), what one transition of each episode adds

    def sum_counts(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gains and losses, each (S, R), of sets that hold so many transitions of each episode, (S, E)."""
        counts = counts.astype(self.weights.dtype)
        gains = counts[:, : self.successes] @ self.weights[: self.successes]
        losses = counts[:, self.successes :] @ self.weights[self.successes :]
        return gains * self.gain, losses * self.loss


@dataclass(frozen=True, slots=True)
class _SortedCandidate:
    """Transitions by descending Q, cut into stretches that never part equal Q values."""

    row: np.ndarray  # (N,) int32, each transition's episode, counted with successes first
    is_threshold: np.ndarray  # (N,) bool, whether a best threshold can lie right behind this transition
    edges: np.ndarray  # (S+1,) int64, where stretches begin and end

    def best_margins(self, margins: _Margins) -> np.ndarray:
        """Largest sum of margins over all transitions above some threshold, (R,), never below 0."""
        stretches, rows = self.edges.size - 1, margins.weights.shape[0]
        stretch = np.repeat(np.arange(stretches), np.diff(self.edges))
        counts = np.bincount(stretch * rows + self.row, minlength=stretches * rows).reshape(stretches, rows)
        gains, losses = margins.sum_counts(counts)
        ends = np.cumsum(gains - losses, axis=0)
        starts = np.vstack([np.zeros_like(ends[:1]), ends[:-1]])
        best = np.maximum(0.0, ends.max(axis=0))
        # Only where a stretch's gains, all taken before its losses, would beat the best is it worth walking through.
        reachable = starts + gains
        for index in np.argsort(-reachable.mean(axis=1)).tolist():
            if (reachable[index] > best).any():
                self._walk(index, margins.steps, starts[index], best)
        return best

    def _walk(self, stretch: int, steps: list[np.ndarray], margin: np.ndarray, best: np.ndarray) -> None:
        """Raise best (R,) to the margins met within a stretch that begins with this margin (R,)."""
        margin = margin.copy()
        inside = slice(self.edges[stretch], self.edges[stretch + 1] - 1)  # the last is an edge, already taken
        for row, is_threshold in zip(self.row[inside].tolist(), self.is_threshold[inside].tolist(), strict=True):
            margin += steps[row]
            if is_threshold:
                np.maximum(best, margin, out=best)


def _sort_candidate(q: np.ndarray, row: np.ndarray, successes: int) -> _SortedCandidate:
    order = np.argsort(-q, kind="stable")
    descending, row = q[order], row[order]
    last = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))  # of each group of equal values
    positives = np.diff(np.cumsum(row < successes)[last], prepend=0)
    negatives = np.diff(last, prepend=-1) - positives
    # Behind a group without a positive, or before one without a negative, a neighbouring threshold is at least as good.
    is_threshold = np.zeros(q.size, dtype=np.bool_)
    is_threshold[last] = (positives > 0) & np.append(negatives[1:] > 0, True)
    wanted = np.arange(1, _STRETCHES) * q.size // _STRETCHES
    edges = np.unique(np.concatenate([[0], last[np.searchsorted(last, wanted)] + 1, [q.size]]))
    return _SortedCandidate(row, is_threshold, edges)
