"""SoftOPC: how much higher Q is on successes than overall, with every episode counting once (Irpan et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import ScoreError
from opc_ros.scoring.metric import UNBOUNDED, Answers, CandidatesOnEpisodes, Direction, ScoreWeightings
from opc_ros.scoring.transitions import (
    check_both_outcomes,
    check_finite,
    check_lengths,
    check_prior,
    check_success,
    check_values,
)

Weighting = Literal["episode", "transition"]


@dataclass(frozen=True, slots=True)
class SoftOpc:
    """The metric as an object, for either weighting."""

    name: str = "soft_opc"
    title: str = "SoftOPC"
    weighting: Weighting = "episode"
    direction: Direction = "higher is better"
    bounds: tuple[float, float] = UNBOUNDED
    needs_greedy: bool = False

    def score(self, answers: Answers, *, prior: float) -> float:
        return soft_opc(answers.q, answers.lengths, answers.success, prior=prior, weighting=self.weighting)

    def check_prior_orders(self, prior: float, positives: float) -> None:
        """Every prior will do."""

    def reweigh(self, candidates: CandidatesOnEpisodes, *, prior: float) -> ScoreWeightings:
        """The score only needs sums over episodes, so any weighting is one matrix product."""
        is_by_episode = self.weighting == "episode"
        successes, lengths = candidates.successes, candidates.lengths
        sums = candidates.sum_each(candidates.values)  # (E, C)
        # One more column for the divisors of the sums.
        columns = (
            np.column_stack([sums / lengths[:, None], np.ones_like(lengths)])
            if is_by_episode
            else np.column_stack([sums, lengths])
        )

        def score(weights: np.ndarray) -> np.ndarray:
            positive = weights[:, :successes] @ columns[:successes]
            everything = positive + weights[:, successes:] @ columns[successes:]
            check_both_outcomes(positive[:, -1], everything[:, -1])
            return np.asarray(prior * positive[:, :-1] / positive[:, -1:] - everything[:, :-1] / everything[:, -1:])

        return score


METRIC = SoftOpc()


def soft_opc(
    q: ArrayLike,
    lengths: ArrayLike,
    success: ArrayLike,
    *,
    prior: float = 1.0,
    weighting: Weighting = "episode",
) -> float:
    """How much higher Q is on successes than overall; higher is better.

    SoftOPC(Q) = prior * mean_positive[Q] - mean_all[Q]

    Each episode counts once ("episode", as in the paper) or each transition does ("transition"). The score depends on
    the scale of Q: compare only candidates of the same scale.

    Args:
        q: Q value of each recorded transition, the episodes concatenated, (N,).
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        prior: p(y=1), the share of feasible actions; 1 fits any behaviour policy.
        weighting: what counts once, an episode or a transition.
    """
    check_prior(prior)
    _check_weighting(weighting)
    episodes = check_lengths(lengths)
    values = check_values(q, episodes, "q")
    is_success = check_success(success, episodes)
    sums = episodes.sum_each(values)
    if not np.isfinite(sums).all():
        check_finite(values, episodes, "q")
    if weighting == "episode":
        means = sums / episodes.lengths
        return float(prior * means[is_success].mean() - means.mean())
    positive_mean = sums[is_success].sum() / episodes.lengths[is_success].sum()
    return float(prior * positive_mean - sums.sum() / episodes.transitions)


def _check_weighting(weighting: str) -> None:
    """Refuse an unknown weighting."""
    if weighting not in get_args(Weighting):
        raise ScoreError(f"weighting is {weighting!r}, expected one of {', '.join(get_args(Weighting))}")
