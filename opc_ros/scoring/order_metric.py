"""Metrics that depend only on the order of Q, exact under any weighting of the episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opc_ros.scoring.metric import Answers, CandidatesOnEpisodes, Direction, ScoreWeightings
from opc_ros.scoring.stable_order import stable_order
from opc_ros.scoring.transitions import (
    Episodes,
    check_both_outcomes,
    check_finite,
    check_lengths,
    check_prior,
    check_success,
    check_values,
)

_CELLS_AT_ONCE = 4_000_000  # weightings times transitions

ScoreOneCandidate = Callable[[np.ndarray], np.ndarray]  # weights (R, E) as recorded -> scores (R,)


@dataclass(frozen=True, slots=True)
class Labelled:
    """One candidate's Q values and the outcome of each episode, as recorded."""

    q: np.ndarray  # (N,)
    episodes: Episodes
    success: np.ndarray  # (E,) bool
    prior: float


@dataclass(frozen=True, slots=True)
class OrderMetric:
    """The metric as an object; `prepare` sorts a candidate's values once and then scores any weighting of episodes."""

    name: str
    title: str
    prepare: Callable[[Labelled], ScoreOneCandidate]
    bounds: tuple[float, float] = (0.0, 1.0)
    direction: Direction = "higher is better"
    needs_greedy: bool = False

    def score(self, answers: Answers, *, prior: float) -> float:
        check_prior(prior)
        episodes = check_lengths(answers.lengths)
        q = check_values(answers.q, episodes, "q")
        check_finite(q, episodes, "q")
        labelled = Labelled(q, episodes, check_success(answers.success, episodes), prior)
        return float(self.prepare(labelled)(np.ones((1, episodes.lengths.size)))[0])

    def check_prior_orders(self, prior: float, positives: float) -> None:
        """Every prior will do: only the order counts."""

    def reweigh(self, candidates: CandidatesOnEpisodes, *, prior: float) -> ScoreWeightings:
        """Sorts each candidate's Q values only once."""
        success = np.zeros(candidates.order.size, dtype=np.bool_)
        success[candidates.order[: candidates.successes]] = True
        prepared = [self.prepare(Labelled(q, candidates.episodes, success, prior)) for q in candidates.values]
        at_once = max(1, _CELLS_AT_ONCE // candidates.episodes.transitions)

        def score(weights: np.ndarray) -> np.ndarray:
            positive = weights[:, : candidates.successes].sum(axis=1)
            check_both_outcomes(positive, weights.sum(axis=1))
            recorded = np.empty_like(weights)
            recorded[:, candidates.order] = weights
            parts = [recorded[start : start + at_once] for start in range(0, len(recorded), at_once)]
            return np.stack([np.concatenate([score_one(part) for part in parts]) for score_one in prepared], axis=1)

        return score


class SortedValues:
    """Values (N,) in ascending order, with equal ones grouped."""

    def __init__(self, values: np.ndarray) -> None:
        self._order = stable_order(values)
        ascending = values[self._order]
        self._starts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))

    def _group(self) -> np.ndarray:
        """Of each sorted value, which group of equal ones it belongs to, (N,)."""
        is_first = np.zeros(self._order.size, dtype=np.bool_)
        is_first[self._starts[1:]] = True
        return np.cumsum(is_first)

    def mass_below(self, weights: np.ndarray) -> np.ndarray:
        """Weight of everything below each value, plus half the weight of its equals: (R, N) from weights (R, N)."""
        groups = np.add.reduceat(weights[:, self._order], self._starts, axis=1)
        below = np.cumsum(groups, axis=1)
        groups /= 2
        below -= groups
        del groups  # a set may have tens of millions of transitions
        below = below[:, self._group()]
        mass = np.empty_like(below)
        mass[:, self._order] = below
        return mass

    def best_margin(self, gains: np.ndarray) -> np.ndarray:
        """Largest sum of gains (R, N) over all values above some threshold, (R,), never below 0."""
        groups = np.add.reduceat(gains[:, self._order], self._starts, axis=1)
        return np.asarray(np.maximum(0.0, np.cumsum(groups[:, ::-1], axis=1).max(axis=1)))


def count_concordant(values: SortedValues, positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight of pairs (R,) in which the positive value is larger, ties counting half, and of all pairs."""
    concordant = (positive * values.mass_below(negative)).sum(axis=1)
    return concordant, positive.sum(axis=1) * negative.sum(axis=1)
