import numpy as np
import pytest

from opc_ros.scoring import discounted_sum_of_advantages, final_rewards, mcc_error, score_baselines, td_error

# A success of two steps and a failure of one; advantages are -.1, 0 and -.5.
Q = [0.5, 0.8, 0.2]
GREEDY = [0.6, 0.8, 0.7]
LENGTHS = [2, 1]
REWARDS = [0.0, 1.0, 0.0]


def test_final_rewards_pay_the_last_step_of_a_success() -> None:
    assert final_rewards(LENGTHS, [True, False]).tolist() == REWARDS
    assert final_rewards([1, 3], [False, True]).tolist() == [0, 0, 0, 1]
    assert final_rewards([1, 2], [False, False]).tolist() == [0, 0, 0]


def test_td_error_worked_by_hand() -> None:
    # Targets .8, 1 and 0.
    assert td_error(Q, GREEDY, LENGTHS, REWARDS) == pytest.approx((0.3**2 + 0.2**2 + 0.2**2) / 3)
    # With gamma .5 the first target is .4.
    assert td_error(Q, GREEDY, LENGTHS, REWARDS, gamma=0.5) == pytest.approx((0.1**2 + 0.2**2 + 0.2**2) / 3)


def test_sum_of_advantages_worked_by_hand() -> None:
    assert discounted_sum_of_advantages(Q, GREEDY, LENGTHS) == pytest.approx((-0.1 + 0.0 - 0.5) / 3)
    later = discounted_sum_of_advantages([0.5, 0.6, 0.2], GREEDY, LENGTHS, gamma=0.5)
    assert later == pytest.approx(((-0.1 - 0.5 * 0.2) - 0.2 - 0.5) / 3)


def test_mcc_error_worked_by_hand() -> None:
    # First target 0 + (1 - 0) = 1, then 1 and 0.
    assert mcc_error(Q, GREEDY, LENGTHS, REWARDS) == pytest.approx((0.5**2 + 0.2**2 + 0.2**2) / 3)
    # A later advantage of -.2 raises the first target to .5 * (1 + .2).
    error = mcc_error([0.5, 0.6, 0.2], GREEDY, LENGTHS, REWARDS, gamma=0.5)
    assert error == pytest.approx((0.1**2 + 0.4**2 + 0.2**2) / 3)


def test_baselines_agree_with_plain_loops_over_uneven_episodes() -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 12, 40)
    q, greedy, rewards = rng.random((3, lengths.sum()))
    gamma, td, advantage_sums, mcc, start = 0.9, [], [], [], 0
    for length in lengths:
        at = range(start, start + length)
        for t in at:
            later = range(t + 1, start + length)
            td.append((q[t] - rewards[t] - (gamma * greedy[t + 1] if later else 0)) ** 2)
            advantage_sums.append(sum(gamma ** (u - t) * (q[u] - greedy[u]) for u in (t, *later)))
            target = rewards[t] + sum(gamma ** (u - t) * (rewards[u] - q[u] + greedy[u]) for u in later)
            mcc.append((q[t] - target) ** 2)
        start += length
    assert td_error(q, greedy, lengths, rewards, gamma=gamma) == pytest.approx(np.mean(td))
    assert discounted_sum_of_advantages(q, greedy, lengths, gamma=gamma) == pytest.approx(np.mean(advantage_sums))
    assert mcc_error(q, greedy, lengths, rewards, gamma=gamma) == pytest.approx(np.mean(mcc))


def test_many_candidates_at_once_score_as_each_alone() -> None:
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 9, 30)
    rewards = rng.random(lengths.sum())
    q, greedy = rng.random((2, lengths.sum(), 5))
    together = score_baselines(q, greedy, lengths, rewards, gamma=0.8)
    for index in range(5):
        one = q[:, index], greedy[:, index], lengths
        assert together.td_error[index] == pytest.approx(td_error(*one, rewards, gamma=0.8))
        assert together.sum_of_advantages[index] == pytest.approx(discounted_sum_of_advantages(*one, gamma=0.8))
        assert together.mcc_error[index] == pytest.approx(mcc_error(*one, rewards, gamma=0.8))
