"""SoftOPC in standard deviations of the candidate's own Q values: the scale of Q does not matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.scoring.metric import UNBOUNDED, Answers, Asks, CandidatesOnEpisodes, Direction, ScoreWeightings
from opc_ros.scoring.metrics.soft_opc import SoftOpc, soft_opc


@dataclass(frozen=True, slots=True)
class SoftOpcOverSpread:
    """The metric as an object."""

    name: str = "soft_opc_over_spread"
    title: str = "SoftOPC over spread of Q"
    direction: Direction = "higher is better"
    bounds: tuple[float, float] = UNBOUNDED
    needs_greedy: bool = False
    asks: Asks = "q"

    def score(self, answers: Answers, *, prior: float) -> float:
        return soft_opc_over_spread(answers.q, answers.lengths, answers.success, prior=prior)

    def check_prior_orders(self, prior: float, positives: float) -> None:
        """Every prior will do."""

    def reweigh(self, candidates: CandidatesOnEpisodes, *, prior: float) -> ScoreWeightings:
        """SoftOPC's sums, and sums of squares for the spread."""
        score_soft = SoftOpc().reweigh(candidates, prior=prior)
        lengths = candidates.lengths
        offsets = np.empty((lengths.size, len(candidates.values)))
        squares = np.empty_like(offsets)
        for column, q in enumerate(candidates.values):
            # Around each candidate's mean, so that the differences are not lost among squares of large values.
            centred = q.astype(np.float64)
            centred -= q.mean(dtype=np.float64)
            offsets[:, column] = candidates.episodes.sum_each(centred)[candidates.order]
            np.multiply(centred, centred, out=centred)
            squares[:, column] = candidates.episodes.sum_each(centred)[candidates.order]
        least = np.array([least_spread(q) for q in candidates.values])

        def score(weights: np.ndarray) -> np.ndarray:
            scores = score_soft(weights)
            total = (weights @ lengths)[:, None]
            variance = weights @ squares / total - (weights @ offsets / total) ** 2
            spread = np.sqrt(np.maximum(variance, 0.0))
            return np.asarray(np.divide(scores, spread, out=np.zeros_like(scores), where=spread > least))

        return score


METRIC = SoftOpcOverSpread()


def soft_opc_over_spread(q: ArrayLike, lengths: ArrayLike, success: ArrayLike, *, prior: float = 1.0) -> float:
    """SoftOPC in standard deviations of the candidate's Q values over all transitions; higher is better.

    With prior 1 neither scale nor level of Q matters. This makes candidates with different discounts comparable, and
    those whose values drifted apart in long training. If all Q values are equal it is 0.

    The arguments are those of `opc`.
    """
    score = soft_opc(q, lengths, success, prior=prior)
    values = np.asarray(q, dtype=np.float64)
    spread = float(values.std())
    return score / spread if spread > least_spread(values) else 0.0


def least_spread(q: np.ndarray) -> float:
    """The standard deviation below which Q values are equal up to rounding."""
    return 1e-9 * float(np.abs(q).max())
