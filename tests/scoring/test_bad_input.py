"""What cannot be scored is refused with an error that says what is missing."""

from collections.abc import Callable

import numpy as np
import pytest

from opc_ros import errors
from opc_ros.scoring import (
    discounted_sum_of_advantages,
    extended_opc,
    final_rewards,
    mcc_error,
    opc,
    return_bound,
    soft_opc,
    td_error,
)

Q, LENGTHS, SUCCESS = [0.9, 0.4, 0.6, 0.1], [2, 2], [True, False]
both_scores = pytest.mark.parametrize("score", [opc, soft_opc])


@both_scores
def test_lengths_that_do_not_add_up_are_refused(score: Callable[..., float]) -> None:
    with pytest.raises(errors.LengthMismatch, match=r"shape \(4,\), expected \(5,\).*2 episodes add up to 5"):
        score(Q, [2, 3], SUCCESS)


@both_scores
def test_one_outcome_for_each_episode_is_required(score: Callable[..., float]) -> None:
    with pytest.raises(errors.LengthMismatch, match=r"success has shape \(3,\), expected \(2,\)"):
        score(Q, LENGTHS, [True, False, True])


@both_scores
@pytest.mark.parametrize("lengths", [[4, 0], [5, -1]])
def test_an_episode_without_transitions_is_refused(score: Callable[..., float], lengths: list[int]) -> None:
    with pytest.raises(errors.LengthMismatch, match=r"episode 1 has length (0|-1), expected at least 1"):
        score(Q, lengths, SUCCESS)


@both_scores
def test_lengths_are_whole_numbers_in_one_row(score: Callable[..., float]) -> None:
    with pytest.raises(errors.LengthMismatch, match="float64, expected whole numbers"):
        score(Q, [2.0, 2.0], SUCCESS)
    with pytest.raises(errors.LengthMismatch, match=r"shape \(1, 2\)"):
        score(Q, [[2, 2]], SUCCESS)


@both_scores
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("index", "where"), [(1, "episode 0, step 1"), (2, "episode 1, step 0")])
def test_a_q_value_that_is_not_finite_is_named(score: Callable[..., float], bad: float, index: int, where: str) -> None:
    q = np.array(Q)
    q[index] = bad
    with pytest.raises(errors.NonFiniteQ, match=f"q of {where} is {bad}"):
        score(q, LENGTHS, SUCCESS)


@both_scores
def test_no_success_is_refused(score: Callable[..., float]) -> None:
    with pytest.raises(errors.NoPositiveEpisodes, match="none of 2 episodes is a success"):
        score(Q, LENGTHS, [False, False])


@both_scores
def test_only_successes_are_refused(score: Callable[..., float]) -> None:
    with pytest.raises(errors.OnlyPositiveEpisodes, match="all 2 episodes are successes"):
        score(Q, LENGTHS, [True, True])


@both_scores
def test_an_empty_set_is_refused(score: Callable[..., float]) -> None:
    with pytest.raises(errors.EmptyValidationSet, match="no episode"):
        score([], np.array([], dtype=int), [])


@both_scores
@pytest.mark.parametrize("prior", [-0.1, 1.1, np.nan])
def test_a_prior_that_is_no_probability_is_refused(score: Callable[..., float], prior: float) -> None:
    with pytest.raises(errors.PriorOutOfRange, match=f"prior is {prior}"):
        score(Q, LENGTHS, SUCCESS, prior=prior)


@both_scores
def test_an_outcome_is_true_or_false(score: Callable[..., float]) -> None:
    assert score(Q, LENGTHS, [1, 0]) == score(Q, LENGTHS, SUCCESS)
    with pytest.raises(errors.ScoreError, match=r"success holds 0\.5"):
        score(Q, LENGTHS, [1, 0.5])


def test_an_unknown_weighting_is_refused() -> None:
    with pytest.raises(errors.ScoreError, match="weighting is 'step', expected one of episode, transition"):
        soft_opc(Q, LENGTHS, SUCCESS, weighting="step")  # type: ignore[arg-type]


def test_extended_opc_needs_two_different_returns() -> None:
    with pytest.raises(errors.NoPositiveEpisodes, match=r"every episode returns 0\.0"):
        extended_opc(Q, LENGTHS, [0, 0, 0, 0])
    with pytest.raises(errors.OnlyPositiveEpisodes, match=r"every episode returns 1\.0"):
        extended_opc(Q, LENGTHS, [0, 1, 1, 0])


def test_baselines_name_the_array_that_is_wrong() -> None:
    rewards = final_rewards(LENGTHS, SUCCESS)
    with pytest.raises(errors.LengthMismatch, match="q_greedy has shape"):
        td_error(Q, [1.0], LENGTHS, rewards)
    with pytest.raises(errors.LengthMismatch, match="rewards has shape"):
        mcc_error(Q, Q, LENGTHS, [1.0])
    with pytest.raises(errors.NonFiniteQ, match="q_greedy of episode 0, step 0 is nan"):
        discounted_sum_of_advantages(Q, [np.nan, 1, 1, 1], LENGTHS)
    with pytest.raises(errors.ScoreError, match=r"gamma is 1\.5"):
        td_error(Q, Q, LENGTHS, rewards, gamma=1.5)


def test_return_bound_takes_probabilities_and_a_horizon() -> None:
    with pytest.raises(errors.ScoreError, match=r"error is 1\.5"):
        return_bound(1.5, 20)
    with pytest.raises(errors.ScoreError, match=r"slip is -0\.1"):
        return_bound(0.5, 20, slip=-0.1)
    with pytest.raises(errors.ScoreError, match="horizon is 0"):
        return_bound(0.5, 0)
