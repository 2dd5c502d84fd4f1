from __future__ import annotations

import numpy as np
import pytest

from opc_ros.deployment.confidence import is_provably_below, success_interval


def test_no_trials_leave_every_rate_possible() -> None:
    low, high = success_interval(0, 0)
    assert (float(low), float(high)) == (0.0, 1.0)


def test_one_success_in_one_trial_worked_by_hand() -> None:
    # B(3/2, 1/2) / B(1/2, 1/2) = 1/2, so M(p) = 1 / (2 p), which reaches 20 at p = 1/40.
    low, high = success_interval(1, 1, confidence=0.95)
    assert float(low) == pytest.approx(1 / 40, abs=1e-12)
    assert float(high) == 1.0


def test_success_and_failure_mirror_each_other() -> None:
    low, high = success_interval(np.array([7, 13]), np.array([20, 20]))
    assert low[0] == pytest.approx(1 - high[1], abs=1e-9)
    assert high[0] == pytest.approx(1 - low[1], abs=1e-9)


def test_interval_holds_the_observed_rate_and_narrows_with_trials() -> None:
    trials = np.array([10, 100, 1000, 10000])
    low, high = success_interval(trials * 9 // 10, trials)
    assert np.all(low < 0.9)
    assert np.all(high > 0.9)
    assert np.all(np.diff(high - low) < 0)
    assert high[-1] - low[-1] < 0.03


@pytest.fixture(scope="module")
def interval_table() -> tuple[np.ndarray, np.ndarray]:
    """Intervals at 90 % for every count of successes (row) in every number of trials (column) up to 400."""
    trials = np.arange(401)
    return success_interval(np.minimum(trials[:, None], trials), trials, confidence=0.9)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_interval_holds_the_true_rate_at_every_moment_of_nearly_every_run(
    rate: float, interval_table: tuple[np.ndarray, np.ndarray]
) -> None:
    rng = np.random.default_rng(11)
    successes = np.cumsum(rng.random((2000, 400)) < rate, axis=1)
    trials = np.broadcast_to(np.arange(1, 401), successes.shape)
    low, high = (bounds[successes, trials] for bounds in interval_table)
    was_ever_outside = np.any((rate < low) | (rate > high), axis=1)
    # The guarantee is at most 10 %; three standard errors of 2,000 runs are 2 points.
    assert was_ever_outside.mean() <= 0.12


def test_an_interval_made_for_one_look_breaks_under_many_looks() -> None:
    # The same simulation with Wald intervals: shows that the coverage test above can fail.
    rng = np.random.default_rng(11)
    trials = np.arange(1, 601)
    ratio = np.cumsum(rng.random((2000, 600)) < 0.5, axis=1) / trials
    half = 1.645 * np.sqrt(0.25 / trials)
    assert np.any(np.abs(ratio - 0.5) > half, axis=1).mean() > 0.3


def test_a_rate_is_provably_low_only_when_results_refute_it() -> None:
    assert is_provably_below(2, 40, 0.5)
    assert not is_provably_below(2, 5, 0.5)
    assert not is_provably_below(20, 40, 0.5)


def test_provably_low_agrees_with_the_interval() -> None:
    for trials in (1, 7, 30):
        for successes in range(trials + 1):
            for floor in (0.1, 0.5, 0.9):
                high = float(success_interval(successes, trials, confidence=0.95)[1])
                assert is_provably_below(successes, trials, floor, confidence=0.95) == (high < floor)


def test_more_successes_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and trials"):
        success_interval(3, 2)
