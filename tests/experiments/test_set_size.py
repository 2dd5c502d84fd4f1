"""Parts of a validation set say how many episodes a score needs."""

from __future__ import annotations

import numpy as np
import pytest

from opc_ros.experiments.set_size import by_q, measure_sizes, to_markdown
from opc_ros.scoring import compute_metric


def test_a_part_is_scored_as_if_nothing_else_had_been_recorded() -> None:
    rng = np.random.default_rng(1)
    lengths, success = np.array([2, 3, 1, 2]), np.array([True, False, True, False])
    q = rng.random((3, 8))
    part = np.array([0, 3])
    expected = [compute_metric("soft_opc", row[[0, 1, 6, 7]], lengths[part], success[part]) for row in q]
    np.testing.assert_allclose(by_q("soft_opc", q, lengths, success)(part), expected)


def test_larger_parts_order_better_and_the_whole_set_comes_last() -> None:
    """Six candidates whose score is their success plus noise that episodes average away."""
    rng = np.random.default_rng(2)
    true = np.linspace(0, 1, 6)
    noisy = true[:, None] + rng.normal(0, 1.5, (6, 200))
    success = np.arange(200) % 2 == 0
    points = measure_sizes(
        lambda part: noisy[:, part].mean(axis=1), success, true, draws=60, rng=np.random.default_rng(0), sizes=(5, 50)
    )
    assert [one.episodes for one in points] == [5, 50, 200]
    assert points[0].spearman < 0.65 < 0.8 < points[1].spearman
    assert points[0].regret_at_1 > points[1].regret_at_1
    assert points[2].low == points[2].high == points[2].spearman


def test_no_part_lacks_two_of_either_outcome() -> None:
    success = np.array([True, True, True, *[False] * 20])
    held = []

    def score(part: np.ndarray) -> np.ndarray:
        held.append(int(success[part].sum()))
        return np.array([1.0, 2.0, 3.0])

    measure_sizes(score, success, np.array([0.1, 0.2, 0.3]), draws=20, rng=np.random.default_rng(0), sizes=(6,))
    assert min(held) >= 2


def test_the_table_has_a_row_for_each_size() -> None:
    points = measure_sizes(
        lambda part: np.array([1.0, 3.0, 2.0]),
        np.array([True, False] * 5),
        np.array([0.1, 0.2, 0.3]),
        draws=2,
        rng=np.random.default_rng(0),
        sizes=(5,),
    )
    assert points[0].regret_at_1 == pytest.approx(10.0)
    assert "| 10 | 0.50 (0.50 to 0.50), 10.0, 0.0 |" in to_markdown({"over": points})
