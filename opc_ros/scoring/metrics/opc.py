"""OPC: how well Q, cut at its best threshold, separates steps of successes from all others (Irpan et al. 2019)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import PriorOutOfRange
from opc_ros.scoring.metric import Answers, CandidatesOnEpisodes, Direction, ScoreWeightings
from opc_ros.scoring.stable_order import stable_order
from opc_ros.scoring.threshold_search import WEIGHTINGS_AT_ONCE, ThresholdSearch, cut_into_blocks
from opc_ros.scoring.transitions import (
    check_both_outcomes,
    check_finite,
    check_lengths,
    check_prior,
    check_success,
    check_values,
)

# Positives per block of the coarse search: few enough that most blocks can be ruled out, enough to make that cheap.
_BLOCK = 64
# Stretches of the sorted transitions that are bounded by one matrix product before any is walked through.
_STRETCHES = 64
# With more transitions than this, stretches are too long to walk through.
_MOST_WALKED = 65_536
# Episode weights that are held in memory at once.
_WEIGHTS_AT_ONCE = 2_000_000
# Groups of equal values that are processed together.
_GROUPS_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Opc:
    """The metric as an object."""

    name: str = "opc"
    title: str = "OPC"
    direction: Direction = "higher is better"
    bounds: tuple[float, float] = (0.0, 1.0)
    needs_greedy: bool = False

    def score(self, answers: Answers, *, prior: float) -> float:
        return opc(answers.q, answers.lengths, answers.success, prior=prior)

    def check_prior_orders(self, prior: float, positives: float) -> None:
        if prior <= positives:
            raise PriorOutOfRange(
                f"prior is {prior:g} and {positives:.3g} of all transitions are positive: OPC is 0 for every "
                "candidate, expected a larger prior (the default is 1)"
            )

    def reweigh(self, candidates: CandidatesOnEpisodes, *, prior: float) -> ScoreWeightings:
        """Sorts each candidate's Q values only once."""
        successes = candidates.successes
        places = np.argsort(candidates.order).astype(np.int32)
        if candidates.episodes.transitions > _MOST_WALKED:
            return _search_thresholds(candidates, places, prior)
        rows = candidates.episodes.spread(places)
        in_order = [_sort_candidate(q, rows, successes) for q in candidates.values]

        def score(weights: np.ndarray) -> np.ndarray:
            gain, loss, by_episode = _weigh(weights, candidates, prior)
            margins = _Margins(by_episode, successes, gain, loss)
            return np.stack([candidate.best_margins(margins) for candidate in in_order], axis=1)

        return score


METRIC = Opc()


def opc(q: ArrayLike, lengths: ArrayLike, success: ArrayLike, *, prior: float = 1.0) -> float:
    """How well Q, cut at its best threshold, separates transitions of successes from all others; higher is better.

    OPC(Q) = max over b of  prior * mean_positive[Q > b] - mean_all[Q > b]

    It is never below 0, because b may lie above all Q values. It depends only on the order of Q values. A prior below
    the fraction of positive transitions gives 0 for every Q.

    Args:
        q: Q value of each recorded transition, the episodes concatenated, (N,).
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        prior: p(y=1), the share of feasible actions; 1 fits any behaviour policy.
    """
    return float(opc_over_priors(q, lengths, success, (prior,))[0])


def opc_over_priors(q: ArrayLike, lengths: ArrayLike, success: ArrayLike, priors: ArrayLike) -> np.ndarray:
    """OPC for each of several priors, (P,), at the cost of one sort."""
    checked = [check_prior(prior) for prior in np.asarray(priors, dtype=np.float64).tolist()]
    episodes = check_lengths(lengths)
    values = check_values(q, episodes, "q")
    is_positive = episodes.spread(check_success(success, episodes))
    positives, negatives = values[is_positive], values[~is_positive]
    positives.sort()
    negatives.sort()
    # Sorting puts infinities at the ends and NaN last, so checking four values is enough.
    if not np.isfinite([positives[0], positives[-1], negatives[0], negatives[-1]]).all():
        check_finite(values, episodes, "q")
    return np.array([best_margin(positives, negatives, prior) for prior in checked])


def best_margin(positives: np.ndarray, negatives: np.ndarray, prior: float) -> float:
    """OPC of Q values sorted ascending within each outcome.

    The best threshold lies just below a positive, so only those are tried: first every _BLOCK-th, then those within
    blocks that could still win. Among equal positives, the first counts all of them; the others count fewer and cannot
    win.
    """
    transitions = positives.size + negatives.size
    if prior / positives.size <= 1.0 / transitions:
        return 0.0

    def margin(positives_above: np.ndarray, negatives_above: np.ndarray) -> np.ndarray:
        return np.asarray(
            positives_above * (prior / positives.size) - (positives_above + negatives_above) / transitions
        )

    first = np.arange(0, positives.size, _BLOCK)
    positives_above = positives.size - first
    negatives_above = negatives.size - np.searchsorted(negatives, positives[first])
    best = float(margin(positives_above, negatives_above).max())
    # No threshold in a block has more positives above it than the block's first, or fewer negatives than the next
    # block's.
    reachable = margin(positives_above, np.append(negatives_above[1:], 0))
    open_blocks = first[reachable > best]
    if open_blocks.size:
        inside = (open_blocks[:, None] + np.arange(1, _BLOCK)).ravel()
        inside = inside[inside < positives.size]
        if inside.size:
            negatives_above = negatives.size - np.searchsorted(negatives, positives[inside])
            best = max(best, float(margin(positives.size - inside, negatives_above).max()))
    return max(0.0, best)


def _search_thresholds(candidates: CandidatesOnEpisodes, places: np.ndarray, prior: float) -> ScoreWeightings:
    """For very many transitions: the same scores up to rounding, a few weightings at a time."""
    outcomes = (candidates.successes, candidates.lengths.size - candidates.successes)
    # Spread for each anew, because what is as long as the transitions should not stay.
    searches = [_prepare_search(q, candidates.episodes.spread(places), outcomes) for q in candidates.values]
    candidates = dataclasses.replace(candidates, values=())  # not needed any more, and large

    at_once = min(WEIGHTINGS_AT_ONCE, max(1, _WEIGHTS_AT_ONCE // candidates.order.size))

    def score(weights: np.ndarray) -> np.ndarray:
        parts = []
        for first in range(0, len(weights), at_once):
            gain, loss, by_episode = _weigh(weights[first : first + at_once], candidates, prior)
            parts.append(np.stack([search.best_margins(by_episode, gain, loss) for search in searches], axis=1))
        return np.concatenate(parts)

    return score


def _prepare_search(q: np.ndarray, row: np.ndarray, outcomes: tuple[int, int]) -> ThresholdSearch:
    row, is_threshold, last = _sort_transitions(q, row, outcomes[0])
    edges = cut_into_blocks(last, row.size)
    del last  # as long as the transitions, and no longer needed
    return ThresholdSearch(row, is_threshold, edges, outcomes)


def _weigh(
    weights: np.ndarray, candidates: CandidatesOnEpisodes, prior: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A positive's gain and a negative's cost under each weighting, (R,), and the weights by episode, (E, R)."""
    positive_total = weights[:, : candidates.successes] @ candidates.lengths[: candidates.successes]  # (R,)
    total = weights @ candidates.lengths
    check_both_outcomes(positive_total, total)
    gain = np.maximum(0.0, prior / positive_total - 1 / total)
    # Sums of integer weights are exact in single precision up to 2^24, and twice as fast.
    is_small = bool((weights == np.rint(weights)).all() and total.max() < 2**24)
    return gain, 1 / total, np.ascontiguousarray(weights.T, dtype=np.float32 if is_small else np.float64)


class _Margins:
    """A transition's contribution to the margin under each weighting: weight times gain, or minus weight times loss."""

    def __init__(self, weights: np.ndarray, successes: int, gain: np.ndarray, loss: np.ndarray) -> None:
        self.weights = weights  # (E, R), successes first
        self.successes = successes
        self.gain = gain  # (R,)
        self.loss = loss  # (R,)
        steps = weights.astype(np.float64)
        steps[:successes] *= gain
        steps[successes:] *= -loss
        self.steps = list(steps)  # E of (R,), the contribution of one transition of each episode

    def sum_counts(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gains and losses, each (S, R), of sets with these numbers of transitions per episode, (S, E)."""
        counts = counts.astype(self.weights.dtype)
        gains = counts[:, : self.successes] @ self.weights[: self.successes]
        losses = counts[:, self.successes :] @ self.weights[self.successes :]
        return gains * self.gain, losses * self.loss


@dataclass(frozen=True, slots=True)
class _SortedCandidate:
    """Transitions by descending Q, cut into stretches that never split equal Q values."""

    row: np.ndarray  # (N,) int32, each transition's episode, in the order with successes first
    is_threshold: np.ndarray  # (N,) bool, whether the best threshold can lie right after this transition
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
        # Walk through a stretch only if all of its gains, taken before any loss, would beat the best.
        reachable = starts + gains
        for index in np.argsort(-reachable.mean(axis=1)).tolist():
            if (reachable[index] > best).any():
                self._walk(index, margins.steps, starts[index], best)
        return np.asarray(best)

    def _walk(self, stretch: int, steps: list[np.ndarray], margin: np.ndarray, best: np.ndarray) -> None:
        """Raise best (R,) to the largest margins within a stretch that starts from this margin (R,)."""
        margin = margin.copy()
        inside = slice(self.edges[stretch], self.edges[stretch + 1] - 1)  # the last one is an edge and already counted
        for row, is_threshold in zip(self.row[inside].tolist(), self.is_threshold[inside].tolist(), strict=True):
            margin += steps[row]
            if is_threshold:
                np.maximum(best, margin, out=best)


def _sort_candidate(q: np.ndarray, row: np.ndarray, successes: int) -> _SortedCandidate:
    row, is_threshold, last = _sort_transitions(q, row, successes)
    wanted = np.arange(1, _STRETCHES) * q.size // _STRETCHES
    edges = np.unique(np.concatenate([[0], last[np.searchsorted(last, wanted)] + 1, [q.size]]))
    return _SortedCandidate(row, is_threshold, edges)


def _sort_transitions(q: np.ndarray, row: np.ndarray, successes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By descending Q: each transition's episode, whether a threshold may lie after it, and where equal values end."""
    # One large array at a time, of the narrowest sufficient type: a set may have tens of millions of transitions.
    index = np.int32 if q.size < 2**31 else np.int64
    order = stable_order(-q)
    descending = q[order]
    is_last = np.append(descending[1:] != descending[:-1], True)  # of each group of equal values
    del descending
    row = row[order]
    del order
    last = np.flatnonzero(is_last).astype(index)
    del is_last
    positives_above = np.cumsum(row < successes, dtype=index)
    is_threshold = np.zeros(q.size, dtype=np.bool_)
    for first in range(0, last.size, _GROUPS_AT_ONCE):
        ends = last[first : first + _GROUPS_AT_ONCE + 1]  # and the end of the next group
        before = last[first - 1] if first else -1
        positives = np.diff(positives_above[ends], prepend=positives_above[before] if first else 0)
        has_negative = np.diff(ends, prepend=before) > positives
        # After a group without a positive, or before one without a negative, a neighbouring threshold is at least as
        # good.
        is_best = (positives > 0) & np.append(has_negative[1:], True)
        is_threshold[ends[:_GROUPS_AT_ONCE]] = is_best[:_GROUPS_AT_ONCE]
    return row, is_threshold, last
