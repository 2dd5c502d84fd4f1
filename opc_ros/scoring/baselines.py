"""The scores that OPC is compared with: TD error, discounted sum of advantages and Monte-Carlo corrected error.

All of them need Q at the recorded action and Q at the policy's own action in the same state (q_greedy, the largest Q).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import LengthMismatch, ScoreError
from opc_ros.scoring.metric import Answers
from opc_ros.scoring.transitions import Episodes, check_finite, check_lengths, check_outcomes, check_values


def td_error(q: ArrayLike, q_greedy: ArrayLike, lengths: ArrayLike, rewards: ArrayLike, *, gamma: float = 1.0) -> float:
    """Mean squared error of Q against one step's reward plus the greedy value after it; lower is better.

    mean over t of (Q(s_t, a_t) - (r_t + gamma * Q(s_{t+1}, a_pi)))^2; the value after an episode's last step is 0.

    Args:
        q: Q value of each recorded transition, (N,).
        q_greedy: Q value of the policy's own action in the same state, (N,).
        lengths: transitions of each episode, (E,).
        rewards: reward of each transition, (N,); see `final_rewards`.
        gamma: discount; 1 for binary-reward tasks.
    """
    episodes, values, greedy = _check(q, q_greedy, lengths, gamma)
    gained = _check_rewards(rewards, episodes)
    return float(np.mean((values - gained - gamma * _next_step(greedy, episodes)) ** 2))


def discounted_sum_of_advantages(q: ArrayLike, q_greedy: ArrayLike, lengths: ArrayLike, *, gamma: float = 1.0) -> float:
    """Mean over transitions of the advantages still to come; smaller is better.

    mean over t of sum_{t' >= t} gamma^{t'-t} A_t' with A = Q(s, a) - Q(s, a_pi).

    Args:
        q: Q value of each recorded transition, (N,).
        q_greedy: Q value of the policy's own action in the same state, (N,).
        lengths: transitions of each episode, (E,).
        gamma: discount; 1 for binary-reward tasks.
    """
    episodes, values, greedy = _check(q, q_greedy, lengths, gamma)
    return float(np.mean(_sum_from_here_on(values - greedy, episodes, gamma)))


def mcc_error(
    q: ArrayLike, q_greedy: ArrayLike, lengths: ArrayLike, rewards: ArrayLike, *, gamma: float = 1.0
) -> float:
    """Mean squared error of Q against the Monte-Carlo return corrected by the advantages; lower is better.

    The target is r_t + sum_{t' > t} gamma^{t'-t} (r_t' - A_t') with A = Q(s, a) - Q(s, a_pi).

    Args:
        q: Q value of each recorded transition, (N,).
        q_greedy: Q value of the policy's own action in the same state, (N,).
        lengths: transitions of each episode, (E,).
        rewards: reward of each transition, (N,); see `final_rewards`.
        gamma: discount; 1 for binary-reward tasks.
    """
    episodes, values, greedy = _check(q, q_greedy, lengths, gamma)
    gained = _check_rewards(rewards, episodes)
    corrected = _sum_from_here_on(gained - (values - greedy), episodes, gamma)
    return float(np.mean((values - gained - gamma * _next_step(corrected, episodes)) ** 2))


def greedy_values(answers: Answers, title: str) -> ArrayLike:
    """Q at the policy's own actions, or an error that says how to get them."""
    if answers.q_greedy is None:
        raise ScoreError(f"{title} needs Q at the policy's own actions: score with baselines")
    return answers.q_greedy


def final_rewards(lengths: ArrayLike, success: ArrayLike) -> np.ndarray:
    """Rewards of a binary-reward task, (N,): 1 at the last step of each success, 0 elsewhere."""
    episodes = check_lengths(lengths)
    rewards = np.zeros(episodes.transitions)
    rewards[episodes.ends] = check_outcomes(success, episodes)
    return rewards


@dataclass(frozen=True, slots=True)
class BaselineScores:
    """The three baselines of several candidates, each (C,)."""

    td_error: np.ndarray
    sum_of_advantages: np.ndarray
    mcc_error: np.ndarray


def score_baselines(
    q: ArrayLike, q_greedy: ArrayLike, lengths: ArrayLike, rewards: ArrayLike, *, gamma: float = 1.0
) -> BaselineScores:
    """All baselines of many candidates at once; q and q_greedy, (N, C), have one column per candidate."""
    episodes, values, greedy = _check(q, q_greedy, lengths, gamma, dimensions=2)
    gained = _check_rewards(rewards, episodes)[:, None]
    advantage_sums = _sum_from_here_on(values - greedy, episodes, gamma)
    reward_sums = _sum_from_here_on(gained, episodes, gamma)
    return BaselineScores(
        td_error=np.mean((values - gained - gamma * _next_step(greedy, episodes)) ** 2, axis=0),
        sum_of_advantages=np.mean(advantage_sums, axis=0),
        mcc_error=np.mean((values - gained - gamma * _next_step(reward_sums - advantage_sums, episodes)) ** 2, axis=0),
    )


def _check(
    q: ArrayLike, q_greedy: ArrayLike, lengths: ArrayLike, gamma: float, dimensions: int = 1
) -> tuple[Episodes, np.ndarray, np.ndarray]:
    if not 0.0 <= gamma <= 1.0:
        raise ScoreError(f"gamma is {gamma}, expected a discount from 0 to 1")
    episodes = check_lengths(lengths)
    checked = []
    for name, array in (("q", q), ("q_greedy", q_greedy)):
        values = np.asarray(array, dtype=np.float64)
        if values.ndim != dimensions or values.shape[0] != episodes.transitions:
            raise LengthMismatch(
                f"{name} has shape {values.shape}, expected {dimensions} dimension(s), "
                f"the first {episodes.transitions} as the lengths of {episodes.lengths.size} episodes add up to"
            )
        check_finite(values, episodes, name)
        checked.append(values)
    if checked[0].shape != checked[1].shape:
        raise LengthMismatch(f"q has shape {checked[0].shape} and q_greedy {checked[1].shape}, expected the same")
    return episodes, checked[0], checked[1]


def _check_rewards(rewards: ArrayLike, episodes: Episodes) -> np.ndarray:
    gained = check_values(rewards, episodes, "rewards")
    check_finite(gained, episodes, "rewards")
    return gained


def _next_step(values: np.ndarray, episodes: Episodes) -> np.ndarray:
    """The value one step later, 0 after an episode's last step, (N, ...)."""
    later = np.zeros_like(values)
    later[:-1] = values[1:]
    later[episodes.ends] = 0.0
    return later


def _sum_from_here_on(values: np.ndarray, episodes: Episodes, gamma: float) -> np.ndarray:
    """Discounted sum from each transition to the end of its episode, (N, ...).

    All episodes are walked back from their last step together, so the loop is as long as the longest episode.
    """
    sums = values.copy()
    by_length = np.argsort(-episodes.lengths, kind="stable")
    ends, lengths = episodes.ends[by_length], -episodes.lengths[by_length]
    for back in range(1, int(episodes.lengths.max())):
        at = ends[: np.searchsorted(lengths, -back)] - back
        sums[at] += gamma * sums[at + 1]
    return sums
