import numpy as np
import pytest

from opc_ros import errors
from opc_ros.ranking import beat_probabilities, measure_stability, rank_bounds, rank_intervals, top_k_probabilities

# Four resamples of three candidates; the second ties two of them, the last all.
SAMPLES = np.array([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 3.0, 2.0], [1.0, 1.0, 1.0]])


def test_rank_bounds_differ_where_scores_tie() -> None:
    best, worst = rank_bounds(SAMPLES)
    assert best.tolist() == [[1, 2, 3], [1, 1, 3], [3, 1, 2], [1, 1, 1]]
    assert worst.tolist() == [[1, 2, 3], [2, 2, 3], [3, 1, 2], [3, 3, 3]]


def test_rank_intervals_round_outwards() -> None:
    assert rank_intervals(SAMPLES, 0.95).tolist() == [[1, 3], [1, 3], [1, 3]]
    certain = np.tile([3.0, 2.0, 1.0], (100, 1))
    assert rank_intervals(certain, 0.95).tolist() == [[1, 1], [2, 2], [3, 3]]
    certain[:2, :2] = [2.0, 3.0]
    assert rank_intervals(certain, 0.9).tolist() == [[1, 1], [2, 2], [3, 3]]
    assert rank_intervals(certain, 0.99).tolist() == [[1, 2], [1, 2], [3, 3]]


def test_places_tied_for_are_shared_evenly() -> None:
    # Firsts: 1, then a half each, then the second, then a third each.
    assert top_k_probabilities(SAMPLES, 1) == pytest.approx([(1 + 1 / 2 + 1 / 3) / 4, (1 / 2 + 1 + 1 / 3) / 4, 1 / 12])
    assert top_k_probabilities(SAMPLES, 3) == pytest.approx([1, 1, 1])


def test_probabilities_of_the_top_k_add_up_to_k() -> None:
    samples = np.random.default_rng(0).integers(0, 4, (200, 7))
    for k in range(1, 8):
        assert top_k_probabilities(samples, k).sum() == pytest.approx(k)


def test_a_tie_is_half_a_win() -> None:
    beats = beat_probabilities(SAMPLES)
    assert beats[0, 1] == pytest.approx((1 + 0.5 + 0 + 0.5) / 4)
    assert beats[0, 2] == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert np.diag(beats).tolist() == [0.5] * 3
    assert beats + beats.T == pytest.approx(np.ones((3, 3)))


def test_k_and_confidence_are_checked() -> None:
    with pytest.raises(errors.ScoreError, match="k is 4, expected 1 to 3"):
        top_k_probabilities(SAMPLES, 4)
    with pytest.raises(errors.ScoreError, match="confidence is 1"):
        rank_intervals(SAMPLES, 1.0)


def test_stability_worked_by_hand() -> None:
    # Same order, opposite order, one half undecided: Spearman 1, -1 and 0; only the first names the same best.
    halves = np.array([[[3, 2, 1], [9, 5, 4]], [[3, 2, 1], [1, 2, 3]], [[3, 2, 1], [2, 2, 2]]], dtype=float)
    stability = measure_stability(halves)
    assert stability.spearman_mean == pytest.approx(0)
    assert stability.spearman_low == pytest.approx(-0.9)
    assert stability.same_best == pytest.approx(1 / 3)
    with pytest.raises(errors.LengthMismatch, match=r"shape \(3, 3\)"):
        measure_stability(halves[:, 0])
