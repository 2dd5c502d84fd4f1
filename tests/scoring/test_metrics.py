import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opc_ros.scoring import (
    extended_opc,
    opc,
    opc_over_priors,
    return_bound,
    soft_opc,
    soft_opc_over_spread,
    thresholded_opc,
)

# A success with Q .9, .4 and a failure with Q .6, .1.
Q = np.array([0.9, 0.4, 0.6, 0.1])
LENGTHS = np.array([2, 2])
SUCCESS = np.array([True, False])


def brute_force_opc(q: np.ndarray, lengths: np.ndarray, success: np.ndarray, prior: float) -> float:
    is_positive = np.repeat(success, lengths)
    thresholds = np.append(q, q.min() - 1)
    return max(prior * (q[is_positive] > b).mean() - (q > b).mean() for b in thresholds)


@st.composite
def scored_sets(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Episodes of both outcomes whose Q values often tie."""
    lengths = np.array(draw(st.lists(st.integers(1, 9), min_size=2, max_size=60)))
    success = np.array(draw(st.lists(st.booleans(), min_size=lengths.size, max_size=lengths.size)))
    success[0], success[1] = True, False
    levels = draw(st.sampled_from([1, 2, 5, 30, 10_000]))
    seed = draw(st.integers(0, 2**32 - 1))
    q = np.random.default_rng(seed).integers(-levels, levels + 1, lengths.sum()) / 7.0
    return q, lengths, success


def test_opc_of_two_episodes_worked_by_hand() -> None:
    # Above .6 lies {.9}: 1/2 - 1/4. Above .4 lie {.9, .6}: 1/2 - 2/4. Above .1 lie three: 2/2 - 3/4.
    assert opc(Q, LENGTHS, SUCCESS) == pytest.approx(0.25)
    # With prior .6 the same sets give .05, -.2 and -.15.
    assert opc(Q, LENGTHS, SUCCESS, prior=0.6) == pytest.approx(0.05)


def test_soft_opc_of_two_episodes_worked_by_hand() -> None:
    assert soft_opc(Q, LENGTHS, SUCCESS) == pytest.approx(0.65 - 0.5)
    assert soft_opc(Q, LENGTHS, SUCCESS, prior=0.5) == pytest.approx(0.325 - 0.5)


def test_soft_opc_weighs_episodes_or_transitions() -> None:
    q = np.array([1.0, 0.0, 0.0, 0.0])
    lengths, success = np.array([1, 3]), np.array([True, False])
    assert soft_opc(q, lengths, success, weighting="episode") == pytest.approx(1 - 1 / 2)
    assert soft_opc(q, lengths, success, weighting="transition") == pytest.approx(1 - 1 / 4)


def test_soft_opc_over_the_spread_of_q_worked_by_hand() -> None:
    # Q differs from its mean .5 by .4, -.1, .1 and -.4: variance .34 / 4.
    assert soft_opc_over_spread(Q, LENGTHS, SUCCESS) == pytest.approx(0.15 / np.sqrt(0.085))


def test_soft_opc_over_the_spread_of_q_ignores_scale_and_level() -> None:
    expected = soft_opc_over_spread(Q, LENGTHS, SUCCESS)
    assert soft_opc_over_spread(3 * Q - 7, LENGTHS, SUCCESS) == pytest.approx(expected)
    assert soft_opc_over_spread(np.full(4, 0.1), LENGTHS, SUCCESS) == 0.0


def test_equal_q_values_are_taken_together() -> None:
    # Cut within the tie, the success would look separable; the whole group gives 1/1 - 2/2.
    assert opc([0.5, 0.5], [1, 1], [True, False]) == 0.0


def test_a_perfect_split_scores_the_share_of_negatives() -> None:
    assert opc([3, 2, 1, 0, 0], [2, 3], [True, False]) == pytest.approx(3 / 5)


def test_successes_below_failures_score_zero() -> None:
    assert opc([0.0, 1.0], [1, 1], [True, False]) == 0.0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(scored_sets(), st.sampled_from([0.0, 0.3, 0.7, 0.95, 1.0]))
def test_opc_is_the_best_over_every_threshold(data: tuple[np.ndarray, np.ndarray, np.ndarray], prior: float) -> None:
    assert opc(*data, prior=prior) == pytest.approx(brute_force_opc(*data, prior), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_opc_is_the_best_over_every_threshold_on_a_larger_set(dtype: type) -> None:
    rng = np.random.default_rng(5)
    lengths, success = np.full(200, 15), rng.random(200) < 0.4
    q = (rng.random(3000) + 0.3 * np.repeat(success, lengths)).astype(dtype)
    assert opc(q, lengths, success) == pytest.approx(brute_force_opc(q, lengths, success, 1.0), abs=1e-12)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(scored_sets())
def test_increasing_transforms_leave_opc_as_it_is(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    q, lengths, success = data
    expected = opc(q, lengths, success)
    # Ranks are the simplest increasing transform: they keep ties and drop everything else.
    ranks = np.unique(q, return_inverse=True)[1]
    for transformed in (ranks, 3 * ranks + 5, ranks.astype(float) ** 3, np.exp(ranks / 1e4)):
        assert opc(transformed, lengths, success) == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(scored_sets())
def test_soft_opc_is_the_share_of_negatives_times_the_gap_of_means(
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    q, lengths, success = data
    is_positive = np.repeat(success, lengths)
    gap = q[is_positive].mean() - q[~is_positive].mean()
    by_transition = soft_opc(q, lengths, success, weighting="transition")
    assert by_transition == pytest.approx((1 - is_positive.mean()) * gap, abs=1e-12 * np.abs(q).max() + 1e-15)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(scored_sets(), st.integers(0, 1000))
def test_the_order_of_episodes_is_irrelevant(data: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int) -> None:
    q, lengths, success = data
    order = np.random.default_rng(seed).permutation(lengths.size)
    starts = np.cumsum(lengths) - lengths
    shuffled = np.concatenate([q[starts[e] : starts[e] + lengths[e]] for e in order])
    assert opc(shuffled, lengths[order], success[order]) == opc(q, lengths, success)
    expected = soft_opc(q, lengths, success)
    assert soft_opc(shuffled, lengths[order], success[order]) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(scored_sets())
def test_opc_grows_with_the_prior_from_zero_to_one(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    scores = opc_over_priors(*data, np.linspace(0, 1, 11))
    assert scores[0] == 0.0
    assert (np.diff(scores) >= 0).all()
    assert scores[-1] == opc(*data)
    assert scores[-1] <= 1 - np.repeat(data[2], data[1]).mean() + 1e-12


def test_a_prior_below_the_share_of_positives_scores_every_q_zero() -> None:
    assert opc(Q, LENGTHS, SUCCESS, prior=0.499) == 0.0
    assert opc(Q, LENGTHS, SUCCESS, prior=0.501) > 0.0


def test_extended_opc_of_binary_rewards_is_opc() -> None:
    rewards = [0, 1, 0, 0]
    assert extended_opc(Q, LENGTHS, rewards) == pytest.approx(0.25)
    assert thresholded_opc(Q, LENGTHS, rewards, 1.0) == pytest.approx(0.25)


def test_extended_opc_worked_by_hand() -> None:
    # Returns 0, 1 and 3, one transition each. At 1: {.8, .5} against {.1} gives 1 - 2/3; at 3: {.8} gives 1 - 1/3.
    q, lengths, rewards = [0.8, 0.5, 0.1], [1, 1, 1], [3.0, 1.0, 0.0]
    assert thresholded_opc(q, lengths, rewards, 1.0) == pytest.approx(1 / 3)
    assert thresholded_opc(q, lengths, rewards, 3.0) == pytest.approx(2 / 3)
    assert extended_opc(q, lengths, rewards) == pytest.approx(0 + 1 * (1 / 3) + 2 * (2 / 3))


def test_extended_opc_raises_q_by_the_reward_gained_before() -> None:
    # Q' is 1, 2 + 1 for the first episode and 2, 2 + 0 for the second: above 2 lies the 3 alone, 1/2 - 1/4.
    q, lengths, rewards = [1.0, 1.0, 2.0, 2.0], [2, 2], [2.0, 0.0, 0.0, 1.0]
    assert thresholded_opc(q, lengths, rewards, 2.0) == pytest.approx(0.25)
    assert extended_opc(q, lengths, rewards) == pytest.approx(1.0 + 1.0 * 0.25)


def test_extended_opc_keeps_ties_between_equal_episodes() -> None:
    # Equal reward sequences with fractional rewards: all Q' tie pairwise across outcomes, so nothing is separable.
    rewards = [0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.0]
    q = [0.7, 0.6, 0.4, 0.1, 0.7, 0.6, 0.4, 0.1]
    assert extended_opc(q, [4, 4], rewards) == pytest.approx(0.6, abs=1e-12)


def test_return_bound_of_theorem_1() -> None:
    assert return_bound(0.01, 20) == pytest.approx(0.8)
    assert return_bound(0.01, 20, slip=0.015) == pytest.approx(0.5)
    assert return_bound(0.0, 20) == 1.0
    assert return_bound(0.2, 20) == 0.0
