"""Metrics that only use order: numbers worked by hand, ties, transforms, and weights that repeat episodes."""

from __future__ import annotations

import numpy as np
import pytest

from opc_ros.errors import NonFiniteQ, ScoreError
from opc_ros.scoring import Reweighter, compute_metric

ORDER_METRICS = ("soft_opc_on_ranks", "opc_by_episode", "weighted_auc", "episode_auc", "auc_by_step")

# A success of two steps between two failures of one: in ascending order .2 (failure), .3 (success), .4 (failure), .9.
Q = np.array([0.9, 0.3, 0.2, 0.4])
LENGTHS = np.array([2, 1, 1])
SUCCESS = np.array([True, False, False])


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("weighted_auc", 3 / 4),  # .9 beats both failures, .3 one of them
        ("episode_auc", 1.0),  # .6 beats .2 and .4
        ("auc_by_step", 1 / 2),  # last steps: .3 beats .2 but not .4; nothing to compare .9 with
        ("soft_opc_on_ranks", 5 / 8 - (5 / 8 + 1 / 8 + 5 / 8) / 3),  # ranks 1/8, 3/8, 5/8, 7/8
        ("opc_by_episode", 1 / 3),  # above .4: (1 - 1/3) / 2; each failure costs 1/3
    ],
)
def test_scores_worked_by_hand(metric: str, expected: float) -> None:
    assert compute_metric(metric, Q, LENGTHS, SUCCESS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("weighted_auc", 0.5),
        ("episode_auc", 0.5),
        ("auc_by_step", 0.5),
        ("soft_opc_on_ranks", 0),
        ("opc_by_episode", 0),
    ],
)
def test_equal_values_say_nothing(metric: str, expected: float) -> None:
    assert compute_metric(metric, np.full(4, 0.7), LENGTHS, SUCCESS) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [name for name in ORDER_METRICS if name != "episode_auc"])
def test_an_increasing_transform_changes_nothing(metric: str) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 12, size=30)
    q, success = rng.random(int(lengths.sum())), rng.random(30) < 0.4
    before = compute_metric(metric, q, lengths, success)
    assert compute_metric(metric, np.exp(9 * q) - 3, lengths, success) == pytest.approx(before)


@pytest.mark.parametrize("metric", ORDER_METRICS)
def test_a_weight_of_two_counts_an_episode_twice(metric: str) -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 12, size=20)
    q = np.round(rng.random(int(lengths.sum())), 1)  # with ties
    success = np.arange(20) % 3 == 0
    weights = rng.integers(0, 3, size=20)
    weights[:2] = 1
    starts = np.cumsum(lengths) - lengths
    repeated = np.repeat(np.arange(20), weights)
    again = np.concatenate([q[starts[e] : starts[e] + lengths[e]] for e in repeated])
    (scores,) = Reweighter([q, 1 - q], lengths, success, metric=metric).score(weights[None].astype(float))
    expected = [compute_metric(metric, values, lengths[repeated], success[repeated]) for values in (again, 1 - again)]
    np.testing.assert_allclose(scores, expected)


@pytest.mark.parametrize("metric", ORDER_METRICS)
def test_what_is_no_number_or_has_one_outcome_is_refused(metric: str) -> None:
    with pytest.raises(NonFiniteQ, match="episode 1, step 0"):
        compute_metric(metric, np.array([0.9, 0.3, np.nan, 0.4]), LENGTHS, SUCCESS)
    with pytest.raises(ScoreError, match="leaves no failure"):
        Reweighter([Q], LENGTHS, SUCCESS, metric=metric).score(np.array([[1.0, 0.0, 0.0]]))
