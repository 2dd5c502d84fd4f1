"""OPC for returns that are not binary (Irpan et al. 2019, appendix I)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import NoPositiveEpisodes, OnlyPositiveEpisodes
from opc_ros.scoring.metrics.opc import best_margin, opc
from opc_ros.scoring.transitions import Episodes, check_finite, check_lengths, check_prior, check_values


def thresholded_opc(
    q: ArrayLike, lengths: ArrayLike, rewards: ArrayLike, threshold: float, *, prior: float = 1.0
) -> float:
    """OPC where an episode counts as a success if its return reaches the threshold.

    The reward gained before each transition is added to Q, which makes it an estimate of the whole return. The reward
    of the transition itself is already part of Q; adding it as well would leak the outcome.

    Args:
        q: Q value of each recorded transition, (N,).
        lengths: transitions of each episode, (E,).
        rewards: reward of each transition, (N,).
        threshold: the lowest return that counts as a success.
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
        total += (upper - lower) * best_margin(whole[is_positive], whole[~is_positive], prior)
    return total


def _whole_returns(q: ArrayLike, rewards: ArrayLike, episodes: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """Q plus the reward before it, (N,), and the return of each episode, (E,)."""
    values = check_values(q, episodes, "q")
    check_finite(values, episodes, "q")
    gained = check_values(rewards, episodes, "rewards").astype(np.float64)
    check_finite(gained, episodes, "rewards")
    before = np.zeros_like(gained)
    # Step by step within each episode: sums across episodes would round equal values differently and break their ties.
    for step in range(1, int(episodes.lengths.max())):
        at = episodes.starts[episodes.lengths > step] + step
        before[at] = before[at - 1] + gained[at - 1]
    return before + values, before[episodes.ends] + gained[episodes.ends]
