"""Scores of many candidates under many weightings of the same episodes, each candidate prepared only once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import LengthMismatch, ScoreError
from opc_ros.scoring.metric import CandidatesOnEpisodes, RankingMetric, ScoreWeightings
from opc_ros.scoring.metrics import find_ranking_metric
from opc_ros.scoring.transitions import (
    Episodes,
    check_finite,
    check_lengths,
    check_prior,
    check_success,
    check_values,
)


class Reweighter:
    """Candidates on one validation set, ready to be scored under any weights of its episodes."""

    def __init__(
        self,
        q_by_candidate: Sequence[ArrayLike],
        lengths: ArrayLike,
        success: ArrayLike,
        *,
        metric: str = "opc",
        prior: float = 1.0,
        own: np.ndarray | None = None,
        first: int = 0,
    ) -> None:
        """Check everything once, and let the metric prepare what it needs once.

        `own`, (C, E) bool, says which episodes do not count for which candidate, whatever their weight. `first` is the
        index of the first of these candidates in error messages.
        """
        chosen = find_ranking_metric(metric)
        check_prior(prior)
        episodes = check_lengths(lengths)
        is_success = check_success(success, episodes)
        if not len(q_by_candidate):
            raise ScoreError("no candidate to score, expected at least one")
        order = np.argsort(~is_success, kind="stable")
        candidates = CandidatesOnEpisodes(
            values=tuple(_check_q(q, index, episodes) for index, q in enumerate(q_by_candidate, first)),
            episodes=episodes,
            order=order,
            lengths=episodes.lengths[order].astype(np.float64),
            successes=int(is_success.sum()),
        )
        self._score = (
            chosen.reweigh(candidates, prior=prior)
            if own is None or not own.any()
            else _score_without_own(candidates, own, chosen, prior)
        )
        self._candidates = dataclasses.replace(candidates, values=())  # a metric keeps what it needs of these

    @property
    def outcomes(self) -> tuple[int, int]:
        """How many successes and how many failures the set holds."""
        return self._candidates.successes, self._candidates.lengths.size - self._candidates.successes

    def score(self, weights: np.ndarray) -> np.ndarray:
        """Score of every candidate, (R, C), where episode e counts weights[r, e] times; weights are (R, E)."""
        if weights.ndim != 2 or weights.shape[1] != self._candidates.lengths.size:
            raise LengthMismatch(f"weights have shape {weights.shape}, expected (any, {self._candidates.lengths.size})")
        return self.score_successes_first(weights[:, self._candidates.order])

    def score_successes_first(self, weights: np.ndarray) -> np.ndarray:
        """Likewise, for weights whose columns are all successes, then all failures, each in their order."""
        return self._score(weights)


def _score_without_own(
    everything: CandidatesOnEpisodes, own: np.ndarray, metric: RankingMetric, prior: float
) -> ScoreWeightings:
    """Candidates that have the same episodes excluded are prepared together, on the remaining episodes."""
    groups: dict[bytes, list[int]] = {}
    for candidate, row in enumerate(own):
        groups.setdefault(row.tobytes(), []).append(candidate)
    parts = []
    for members in groups.values():
        counts = ~own[members[0]]
        columns = np.flatnonzero(counts[everything.order])
        rows = everything.episodes.spread(counts)
        episodes = check_lengths(everything.episodes.lengths[counts])
        kept = CandidatesOnEpisodes(
            values=tuple(everything.values[member][rows] for member in members),
            episodes=episodes,
            order=(np.cumsum(counts) - 1)[everything.order[columns]],
            lengths=everything.lengths[columns],
            successes=int((columns < everything.successes).sum()),
        )
        parts.append((members, columns, metric.reweigh(kept, prior=prior)))

    def score(weights: np.ndarray) -> np.ndarray:
        scores = np.empty((len(weights), len(own)))
        for members, columns, score_part in parts:
            scores[:, members] = score_part(weights[:, columns])
        return scores

    return score


def _check_q(q: ArrayLike, index: int, episodes: Episodes) -> np.ndarray:
    name = f"q of candidate {index}"
    values = check_values(q, episodes, name)
    check_finite(values, episodes, name)
    return values
