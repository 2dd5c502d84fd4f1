"""Scores of many candidates under many weightings of the same episodes, each candidate's Q values sorted only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import LengthMismatch, ScoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring.metrics import MetricName, check_metric
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
        self._episodes = check_lengths(lengths)
        self._is_success = check_success(success, self._episodes)
        values = [_check_q(q, index, self._episodes) for index, q in enumerate(q_by_candidate)]
        if metric == "opc":
            self._sorted = [_sort_candidate(q, self._episodes, self._is_success) for q in values]
        else:
            sums = [self._episodes.sum_each(q) for q in values]
            self._sums = np.stack(sums, axis=1) if sums else np.empty((self._episodes.lengths.size, 0))  # (E, C)

    def score(self, weights: np.ndarray, report: Report = ignore_progress) -> np.ndarray:
        """Score of every candidate, (R, C), where episode e counts weights[r, e] times; weights are (R, E)."""
        if weights.ndim != 2 or weights.shape[1] != self._is_success.size:
            raise LengthMismatch(f"weights have shape {weights.shape}, expected (any, {self._is_success.size})")
        for name, chosen in (("success", self._is_success), ("failure", ~self._is_success)):
            if (weights @ chosen.astype(np.float64) <= 0).any():
                raise ScoreError(f"a row of weights leaves no {name}, expected at least one of each outcome")
        if self._metric == "opc":
            return self._score_opc(weights, report)
        scores = self._score_soft(weights)
        report(scores.shape[1], scores.shape[1])
        return scores

    def _score_soft(self, weights: np.ndarray) -> np.ndarray:
        lengths = self._episodes.lengths
        is_by_episode = self._metric == "soft_opc"
        sums = self._sums / lengths[:, None] if is_by_episode else self._sums
        counts = np.ones(lengths.size) if is_by_episode else lengths.astype(np.float64)
        # Positive and other columns side by side: one product gives both means and what they are divided by.
        columns = np.column_stack([sums, counts])
        both = weights @ np.hstack([columns * self._is_success[:, None], columns])
        positive, everything = np.hsplit(both, 2)
        return self._prior * positive[:, :-1] / positive[:, -1:] - everything[:, :-1] / everything[:, -1:]

    def _score_opc(self, weights: np.ndarray, report: Report) -> np.ndarray:
        lengths = self._episodes.lengths.astype(np.float64)
        total = weights @ lengths  # (R,)
        gain = np.maximum(0.0, self._prior / (weights @ (lengths * self._is_success)) - 1 / total)
        # Sums of whole weights are exact in single precision up to 2^24, and twice as fast.
        is_small = bool((weights == np.rint(weights)).all() and total.max() < 2**24)
        by_row = weights[:, _successes_first(self._is_success)].T
        by_row = np.ascontiguousarray(by_row, dtype=np.float32 if is_small else np.float64)
        margins = _Margins(by_row, int(self._is_success.sum()), gain, 1 / total)
        scores = np.empty((len(self._sorted), weights.shape[0]))
        for index, candidate in enumerate(self._sorted):
            scores[index] = candidate.best_margins(margins)
            report(index + 1, len(self._sorted))
        return scores.T


def _check_q(q: ArrayLike, index: int, episodes: Episodes) -> np.ndarray:
    name = f"q of candidate {index}"
    values = check_values(q, episodes, name)
    check_finite(values, episodes, name)
    return values


def _successes_first(is_success: np.ndarray) -> np.ndarray:
    return np.argsort(~is_success, kind="stable")


class _Margins:
    """What transitions add to the margin under each weighting: weight times gain, or minus weight times loss."""

    def __init__(self, weights: np.ndarray, successes: int, gain: np.ndarray, loss: np.ndarray) -> None:
        self.weights = weights  # (E, R), successes first
        self.successes = successes
        self.gain = gain  # (R,)
        self.loss = loss  # (R,)
        self.steps = weights.astype(np.float64)  # (E, R), what one transition of each episode adds
        self.steps[:successes] *= gain
        self.steps[successes:] *= -loss

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

    def _walk(self, stretch: int, steps: np.ndarray, margin: np.ndarray, best: np.ndarray) -> None:
        """Raise best (R,) to the margins met within a stretch that begins with this margin (R,)."""
        margin = margin.copy()
        inside = slice(self.edges[stretch], self.edges[stretch + 1] - 1)  # the last is an edge, already taken
        for row, is_threshold in zip(self.row[inside].tolist(), self.is_threshold[inside].tolist(), strict=True):
            np.add(margin, steps[row], out=margin)
            if is_threshold:
                np.maximum(best, margin, out=best)


def _sort_candidate(q: np.ndarray, episodes: Episodes, is_success: np.ndarray) -> _SortedCandidate:
    order = np.argsort(-q, kind="stable")
    descending = q[order]
    is_last = np.append(descending[1:] != descending[:-1], True)  # of its equal values
    row_of_episode = np.empty(is_success.size, dtype=np.int32)
    row_of_episode[_successes_first(is_success)] = np.arange(is_success.size, dtype=np.int32)
    last = np.flatnonzero(is_last)
    is_positive = episodes.spread(is_success)[order]
    positives = np.diff(np.cumsum(is_positive)[last], prepend=0)  # in each group of equal values
    negatives = np.diff(last, prepend=-1) - positives
    # Behind a group without a positive, or before one without a negative, a neighbouring threshold is at least as good.
    is_threshold = np.zeros(q.size, dtype=np.bool_)
    is_threshold[last] = (positives > 0) & np.append(negatives[1:] > 0, True)
    wanted = np.arange(1, _STRETCHES) * q.size // _STRETCHES
    edges = np.unique(np.concatenate([[0], last[np.searchsorted(last, wanted)] + 1, [q.size]]))
    return _SortedCandidate(episodes.spread(row_of_episode)[order], is_threshold, edges)
