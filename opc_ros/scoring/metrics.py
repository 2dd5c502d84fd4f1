"""OPC, SoftOPC, their extension to returns that are not binary, and the return they bound (Irpan et al. 2019)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import NoPositiveEpisodes, OnlyPositiveEpisodes, ScoreError
from opc_ros.scoring.transitions import (
    Episodes,
    check_finite,
    check_lengths,
    check_prior,
    check_success,
    check_values,
)

Weighting = Literal["episode", "transition"]
MetricName = Literal["opc", "soft_opc", "soft_opc_by_transition", "soft_opc_over_spread"]
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)

# Positives between two thresholds of the coarse search: few enough to rule most of them out, enough to be cheap.
_BLOCK = 64


def opc(q: ArrayLike, lengths: ArrayLike, success: ArrayLike, *, prior: float = 1.0) -> float:
    """How well Q, cut at its best threshold, tells transitions of successes from all others; higher is better.

    OPC(Q) = max over b of  prior * mean_positive[Q > b] - mean_all[Q > b], never below 0 (nothing is above b).
    It depends on the order of Q values only. A prior below the fraction of positive transitions gives 0 for every Q.

    Args:
        q: Q value of each recorded transition, episodes one behind the other, (N,).
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        prior: p(y=1), the share of feasible actions; 1 fits any behaviour policy.
    """
    return float(opc_over_priors(q, lengths, success, (prior,))[0])


def opc_over_priors(q: ArrayLike, lengths: ArrayLike, success: ArrayLike, priors: ArrayLike) -> np.ndarray:
    """OPC for each of several priors, (P,), for the price of one sort."""
    checked = [check_prior(prior) for prior in np.asarray(priors, dtype=np.float64).tolist()]
    episodes = check_lengths(lengths)
    values = check_values(q, episodes, "q")
    is_positive = episodes.spread(check_success(success, episodes))
    positives, negatives = values[is_positive], values[~is_positive]
    positives.sort()
    negatives.sort()
    # Sorting puts infinities at the ends and NaN last, so four values stand for all.
    if not np.isfinite([positives[0], positives[-1], negatives[0], negatives[-1]]).all():
        check_finite(values, episodes, "q")
    return np.array([_best_margin(positives, negatives, prior) for prior in checked])


def _best_margin(positives: np.ndarray, negatives: np.ndarray, prior: float) -> float:
    """OPC of Q values sorted ascending within each outcome.

    The best threshold lies just below a positive, so only those are tried: first each _BLOCK-th, then those between two
    of them that could still win. Among equal positives the first counts them all; the others claim less and cannot win.
    """
    transitions = positives.size + negatives.size
    if prior / positives.size <= 1.0 / transitions:
        return 0.0

    def margin(positives_above: np.ndarray, negatives_above: np.ndarray) -> np.ndarray:
        return positives_above * (prior / positives.size) - (positives_above + negatives_above) / transitions

    first = np.arange(0, positives.size, _BLOCK)
    positives_above = positives.size - first
    negatives_above = negatives.size - np.searchsorted(negatives, positives[first])
    best = float(margin(positives_above, negatives_above).max())
    # Within a block there are at most its first's positives and at least the next block's negatives above a threshold.
    reachable = margin(positives_above, np.append(negatives_above[1:], 0))
    open_blocks = first[reachable > best]
    if open_blocks.size:
        inside = (open_blocks[:, None] + np.arange(1, _BLOCK)).ravel()
        inside = inside[inside < positives.size]
        if inside.size:
            negatives_above = negatives.size - np.searchsorted(negatives, positives[inside])
            best = max(best, float(margin(positives.size - inside, negatives_above).max()))
    return max(0.0, best)


def soft_opc(
    q: ArrayLike,
    lengths: ArrayLike,
    success: ArrayLike,
    *,
    prior: float = 1.0,
    weighting: Weighting = "episode",
) -> float:
    """How much higher Q is on successes than on everything; higher is better.

    SoftOPC(Q) = prior * mean_positive[Q] - mean_all[Q], each episode counting once ("episode", as in the paper) or as
    often as it has transitions ("transition"). It depends on the scale of Q: compare candidates of one scale.

    Args:
        q: Q value of each recorded transition, episodes one behind the other, (N,).
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        prior: p(y=1), the share of feasible actions; 1 fits any behaviour policy.
        weighting: what counts once, an episode or a transition.
    """
    check_prior(prior)
    check_weighting(weighting)
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


def soft_opc_over_spread(q: ArrayLike, lengths: ArrayLike, success: ArrayLike, *, prior: float = 1.0) -> float:
    """SoftOPC in standard deviations of the candidate's Q values over all transitions; higher is better.

    With prior 1 neither the scale nor the level of Q matters, so that candidates of different discounts, or one that
    trained so long that all its values moved apart, can be compared. Where all Q values are equal it is 0.

    The arguments are those of `opc`.
    """
    score = soft_opc(q, lengths, success, prior=prior)
    values = np.asarray(q, dtype=np.float64)
    spread = float(values.std())
    return score / spread if spread > least_spread(values) else 0.0


def least_spread(q: np.ndarray) -> float:
    """Standard deviation up to which Q values are equal but for rounding."""
    return 1e-9 * float(np.abs(q).max())


def check_weighting(weighting: str) -> None:
    """Refuse a word that names no weighting."""
    if weighting not in get_args(Weighting):
        raise ScoreError(f"weighting is {weighting!r}, expected one of {', '.join(get_args(Weighting))}")


def compute_metric(
    metric: MetricName, q: ArrayLike, lengths: ArrayLike, success: ArrayLike, *, prior: float = 1.0
) -> float:
    """The score of this name; the arrays are those of `opc`."""
    check_metric(metric)
    if metric == "opc":
        return opc(q, lengths, success, prior=prior)
    if metric == "soft_opc_over_spread":
        return soft_opc_over_spread(q, lengths, success, prior=prior)
    weighting: Weighting = "episode" if metric == "soft_opc" else "transition"
    return soft_opc(q, lengths, success, prior=prior, weighting=weighting)


def check_metric(metric: str) -> None:
    """Refuse a word that names no metric."""
    if metric not in METRIC_NAMES:
        raise ScoreError(f"metric is {metric!r}, expected one of {', '.join(METRIC_NAMES)}")


def thresholded_opc(
    q: ArrayLike, lengths: ArrayLike, rewards: ArrayLike, threshold: float, *, prior: float = 1.0
) -> float:
    """OPC where an episode counts as a success if its return reaches the threshold.

    Q is raised by the reward gained before each transition, which makes it an estimate of the whole return. The reward
    of the transition itself is already part of Q; adding it too would tell Q the outcome.

    Args:
        q: Q value of each recorded transition, (N,).
        lengths: transitions of each episode, (E,).
        rewards: reward of each transition, (N,).
        threshold: return from which on an episode is a success.
        prior: p(y=1).
    """
    episodes = check_lengths(lengths)
    whole, returns = _whole_returns(q, rewards, episodes)
    return opc(whole, lengths, returns >= threshold, prior=prior)


def extended_opc(q: ArrayLike, lengths: ArrayLike, rewards: ArrayLike, *, prior: float = 1.0) -> float:
    """OPC for returns that are not binary: an estimate on the scale of the return; higher is better.

    With the distinct returns c_1 < ... < c_n of the set: c_1 + sum over i of (c_i - c_{i-1}) * thresholded_opc(c_i).

    Args:
        q: Q value of each recorded transition, (N,).
        lengths: transitions of each episode, (E,).
        rewards: reward of each transition, (N,).
        prior: p(y=1).
    """
    check_prior(prior)
    episodes = check_lengths(lengths)
    whole, returns = _whole_returns(q, rewards, episodes)
    outcomes = np.unique(returns)
    if outcomes.size == 1:
        error = OnlyPositiveEpisodes if outcomes[0] > 0 else NoPositiveEpisodes
        raise error(f"every episode returns {outcomes[0]}, expected at least two different returns to tell apart")
    order = np.argsort(whole)
    whole, returns = whole[order], episodes.spread(returns)[order]
    total = float(outcomes[0])
    for lower, upper in pairwise(outcomes.tolist()):
        is_positive = returns >= upper
        total += (upper - lower) * _best_margin(whole[is_positive], whole[~is_positive], prior)
    return total


def _whole_returns(q: ArrayLike, rewards: ArrayLike, episodes: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """Q plus the reward before it, (N,), and the return of each episode, (E,)."""
    values = check_values(q, episodes, "q")
    check_finite(values, episodes, "q")
    gained = check_values(rewards, episodes, "rewards").astype(np.float64)
    check_finite(gained, episodes, "rewards")
    before = np.zeros_like(gained)
    # Step by step within each episode: sums across episodes would round equal values apart and break their ties.
    for step in range(1, int(episodes.lengths.max())):
        at = episodes.starts[episodes.lengths > step] + step
        before[at] = before[at - 1] + gained[at - 1]
    return before + values, before[episodes.ends] + gained[episodes.ends]


def return_bound(error: float, horizon: int, slip: float = 0.0) -> float:
    """Least return that a mean chance of a first catastrophic action still guarantees, Theorem 1.

    R(pi) >= 1 - T * (eps + c); 0 where that says nothing, because no return is below 0.

    Args:
        error: eps, mean over steps of the chance that the policy makes its first mistake there.
        horizon: T, steps of an episode.
        slip: c, worst chance that the dynamics alone turn a feasible action into a catastrophic state.
    """
    for name, value in (("error", error), ("slip", slip)):
        if not 0.0 <= value <= 1.0:
            raise ScoreError(f"{name} is {value}, expected a probability from 0 to 1")
    if horizon < 1:
        raise ScoreError(f"horizon is {horizon}, expected at least 1 step")
    return max(0.0, 1.0 - horizon * (error + slip))
