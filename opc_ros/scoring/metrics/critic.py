"""Critic: how much higher a critic rates a candidate's own actions than the recorded ones; it needs no Q."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.scoring.metric import UNBOUNDED, Answers, Asks, CandidatesOnEpisodes, Direction, ScoreWeightings
from opc_ros.scoring.transitions import check_finite, check_lengths, check_success, check_values


@dataclass(frozen=True, slots=True)
class MeanOverEpisodes:
    """The metric as an object: the mean of the critic's numbers, with every episode counting once."""

    name: str = "critic"
    title: str = "Critic of own actions"
    direction: Direction = "higher is better"
    bounds: tuple[float, float] = UNBOUNDED
    needs_greedy: bool = False
    asks: Asks = "critic"

    def score(self, answers: Answers, *, prior: float) -> float:
        episodes = check_lengths(answers.lengths)
        values = check_values(answers.q, episodes, "the critic's opinion")
        check_finite(values, episodes, "the critic's opinion")
        check_success(answers.success, episodes)
        return float((episodes.sum_each(values) / episodes.lengths).mean())

    def check_prior_orders(self, prior: float, positives: float) -> None:
        """Every prior will do: it plays no part."""

    def reweigh(self, candidates: CandidatesOnEpisodes, *, prior: float) -> ScoreWeightings:
        means = candidates.sum_each(candidates.values) / candidates.lengths[:, None]  # (E, C)

        def score(weights: np.ndarray) -> np.ndarray:
            return np.asarray(weights @ means / weights.sum(axis=1)[:, None])

        return score


METRIC = MeanOverEpisodes()
