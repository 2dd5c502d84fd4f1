"""OPC against scipy's Kolmogorov-Smirnov statistic; SoftOPC, TD error and advantages against d3rlpy."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from opc_ros.scoring import discounted_sum_of_advantages, final_rewards, opc, soft_opc, td_error
from tests.scoring.q_table import QTable


@pytest.mark.parametrize("levels", [3, 50, 1_000_000])
@pytest.mark.parametrize("seed", range(5))
def test_opc_is_the_share_of_negatives_times_the_one_sided_ks_statistic(levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 21, 300)
    success = rng.random(300) < 0.3
    is_positive = np.repeat(success, lengths)
    q = rng.integers(0, levels, lengths.sum()) + 0.2 * levels * is_positive
    # "less" measures how far the negatives' distribution function lies above the positives'.
    ks = stats.ks_2samp(q[is_positive], q[~is_positive], alternative="less", method="asymp").statistic
    assert opc(q, lengths, success) == pytest.approx((1 - is_positive.mean()) * ks, abs=1e-12)


@pytest.fixture(scope="module")
def recorded() -> SimpleNamespace:
    from d3rlpy.dataset import MDPDataset

    rng = np.random.default_rng(11)
    episodes, steps = 60, 20
    success = rng.random(episodes) < 0.4
    lengths = np.full(episodes, steps)
    q = rng.random(episodes * steps) + 0.2 * np.repeat(success, steps)
    rewards = final_rewards(lengths, success)
    dataset = MDPDataset(
        observations=np.arange(q.size, dtype=np.float64)[:, None],
        actions=np.zeros((q.size, 1), dtype=np.float64),
        rewards=rewards[:, None],
        terminals=np.tile([0.0] * (steps - 1) + [1.0], episodes),
    )
    greedy = q + rng.random(q.size)
    return SimpleNamespace(q=q, greedy=greedy, lengths=lengths, success=success, rewards=rewards, dataset=dataset)


def test_soft_opc_equals_d3rlpy_at_fixed_length(recorded: SimpleNamespace) -> None:
    from d3rlpy.metrics import SoftOPCEvaluator

    theirs = SoftOPCEvaluator(return_threshold=1.0)(QTable(recorded.q, recorded.greedy, 1.0), recorded.dataset)
    for weighting in ("episode", "transition"):
        ours = soft_opc(recorded.q, recorded.lengths, recorded.success, weighting=weighting)
        assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_td_error_equals_d3rlpy(recorded: SimpleNamespace, gamma: float) -> None:
    from d3rlpy.metrics import TDErrorEvaluator

    theirs = TDErrorEvaluator()(QTable(recorded.q, recorded.greedy, gamma), recorded.dataset)
    ours = td_error(recorded.q, recorded.greedy, recorded.lengths, recorded.rewards, gamma=gamma)
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_sum_of_advantages_equals_d3rlpy(recorded: SimpleNamespace, gamma: float) -> None:
    from d3rlpy.metrics import DiscountedSumOfAdvantageEvaluator

    theirs = DiscountedSumOfAdvantageEvaluator()(QTable(recorded.q, recorded.greedy, gamma), recorded.dataset)
    ours = discounted_sum_of_advantages(recorded.q, recorded.greedy, recorded.lengths, gamma=gamma)
    assert ours == pytest.approx(theirs, rel=1e-9)
