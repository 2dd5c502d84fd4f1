"""The parts of decision 14's experiment with numbers worked by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.experiments.clustered_figures import measure
from opc_ros.experiments.score_choice import judge_page, run_tree, to_markdown
from opc_ros.experiments.score_variants import (
    BASE,
    BY_Q,
    ActedOn,
    combine,
    cross_fit,
    discount_of,
    score_actions,
    score_baselines_each,
    score_by_q,
)
from opc_ros.policies.candidate import read_candidate


def make_action(x_m: float, *, is_closing: bool = False) -> np.ndarray:
    return np.array([x_m, 0, 0, 0, 1, 0, is_closing, 0], dtype=np.float64)


def test_distances_are_in_spreads_of_the_recorded_actions_and_flags_count_one() -> None:
    recorded = np.stack([make_action(-0.02), make_action(0.02)])  # two episodes of one step: spread 0.02 along x
    same = recorded.copy()
    other = np.stack([make_action(0.0), make_action(0.02, is_closing=True)])
    acted = ActedOn(
        recorded, np.array([1, 1]), np.stack([same, other]), np.array([[0.5, 0.5], [0.9, 0.8]]), np.full((2, 2), 0.5)
    )
    found = score_actions(acted)
    assert found["greedy_gap"] == pytest.approx([0.0, -0.35])
    assert found["greedy_distance"][0] == pytest.approx(0.0)
    assert found["greedy_distance"][1] == pytest.approx(-(1.0 + 1.0) / 2)  # one spread away; one flag differs
    assert found["peer_distance"] == pytest.approx([-0.25, -0.25])  # 0.5 spreads from the mean in one of two states


def test_baselines_discount_as_the_candidate_was_trained() -> None:
    zoo = Path("sim_bridge/zoo/candidates")
    candidates = [read_candidate(zoo / name) for name in ("hasty-00300", "first-00600", "quartet")]
    assert [discount_of(one) for one in candidates] == [0.3, 0.9, 0.9]
    q, greedy = np.full((3, 2), 0.5), np.ones((3, 2))  # one success of two steps
    found = score_baselines_each(q, greedy, np.array([2]), np.array([True]), candidates)
    # First step 0.5 against the discounted greedy value 1 after it, last step 0.5 against the reward 1.
    assert found["td_error"] == pytest.approx([(0.2**2 + 0.25) / 2, (0.4**2 + 0.25) / 2, (0.4**2 + 0.25) / 2])
    # Each step loses 0.5; the first also what the next one loses, discounted.
    assert found["sum_of_advantages"] == pytest.approx([-(0.5 + 0.15 + 0.5) / 2, -(0.5 + 0.45 + 0.5) / 2, -0.725])


def test_a_combination_weighs_the_second_part_by_three_tenths() -> None:
    base, part = np.array([1.0, 3.0]), np.array([10.0, 0.0])
    np.testing.assert_allclose(combine(base, part), [-1 + 0.3, 1 - 0.3])


def test_cross_fitting_learns_from_other_runs_only() -> None:
    """A score that predicts success within one run is useless if that run must not be learned from."""
    part = np.array([0.0, 1.0, 0.0, 1.0])
    success = np.array([0.0, 1.0, 0.5, 0.5])
    runs = [frozenset("a"), frozenset("a"), frozenset("b"), frozenset("b")]
    predicted = cross_fit({"part": part}, success, runs)
    assert predicted[0] == predicted[1] == 0.5  # run b says that the part does not matter
    assert predicted[3] > predicted[2]


def test_figures_of_a_score_that_puts_the_second_best_first() -> None:
    success = np.array([0.9, 0.8, 0.6, 0.55, 0.1])
    scores = np.array([4.0, 5.0, 3.0, 2.0, 1.0])
    runs = [frozenset({name}) for name in "abcd"] + [frozenset({"a", "b"})]
    found = measure(scores, success, success, runs, np.random.default_rng(0))
    assert found.spearman == pytest.approx(0.9)  # 1 - 6 * (1 + 1) / (5 * 24)
    assert (found.regret_at_1, found.regret_at_3) == pytest.approx((10.0, 0.0))
    assert found.spearman_above_half == pytest.approx(0.8)  # 1 - 6 * 2 / (4 * 15)
    assert found.worse_without_a_run == pytest.approx(0.5)  # without a or b the rest is in order
    assert "| over | 0.90 (" in to_markdown({"over": found})


def test_every_score_that_needs_only_q_is_computed_and_holds_on_the_tree() -> None:
    rng = np.random.default_rng(0)
    scores = score_by_q(rng.random((3, 12)), np.full(4, 3), np.array([True, False, True, False]))
    assert set(scores) == set(BY_Q)
    assert all(values.shape == (3,) for values in scores.values())
    tree = run_tree([0], functions=60)
    assert tree["soft_opc"] > 0.3
    assert tree[BASE] > 0.3


def test_the_pages_own_scores_are_judged_with_averages_in_the_runs_of_their_members() -> None:
    found = judge_page("train")
    assert found["soft_opc_over_spread"].spearman == pytest.approx(0.93, abs=0.005)  # as on the page
    assert found["opc"].spearman == pytest.approx(0.89, abs=0.005)
    assert found["soft_opc_over_spread"].regret_at_3 == 0.0
