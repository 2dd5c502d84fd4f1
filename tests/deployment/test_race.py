from __future__ import annotations

import numpy as np
import pytest

from opc_ros.deployment.race import RaceRules, is_exploration_turn, judge_race, least_run, race_interval

RULES = RaceRules()


def test_a_race_without_results_follows_the_offline_order() -> None:
    standing = judge_race(np.array([0.1, 0.3, 0.2]), np.zeros(3), np.zeros(3), RULES)
    assert standing.leader == 1
    assert standing.challenger == 2
    assert standing.is_in_race.all()
    assert not standing.is_settled


def test_results_overrule_the_offline_order() -> None:
    trials = np.array([200.0, 200.0, 200.0])
    standing = judge_race(np.array([0.3, 0.2, 0.1]), np.array([100.0, 110.0, 190.0]), trials, RULES)
    assert standing.leader == 2
    assert standing.is_in_race.tolist() == [False, False, True]
    assert standing.is_settled


def test_a_candidate_leaves_the_race_only_when_its_upper_bound_is_below_anothers_lower() -> None:
    successes, trials = np.array([45.0, 30.0, 5.0]), np.array([50.0, 50.0, 50.0])
    low, high = race_interval(successes, trials, 3, RULES)
    standing = judge_race(np.zeros(3), successes, trials, RULES)
    assert standing.is_in_race.tolist() == [True, bool(high[1] >= low[0]), False]
    assert high[2] < low[0]


def test_the_less_known_of_leader_and_challenger_runs_next() -> None:
    standing = judge_race(np.array([0.2, 0.2]), np.array([450.0, 44.0]), np.array([500.0, 50.0]), RULES)
    assert standing.leader == 0
    assert standing.next == 1


def test_a_candidate_alone_runs_and_is_settled_only_with_nobody_to_compare() -> None:
    standing = judge_race(np.array([0.2]), np.array([5.0]), np.array([10.0]), RULES)
    assert standing.next == 0
    assert standing.is_settled


def test_a_score_that_does_not_predict_loses_its_say() -> None:
    scores = np.array([0.4, 0.3, 0.2, 0.1])
    trials = np.full(4, 100.0)
    with_the_score = judge_race(scores, np.array([90.0, 70.0, 50.0, 30.0]), trials, RULES)
    across_the_score = judge_race(scores, np.array([30.0, 90.0, 20.0, 80.0]), trials, RULES)
    pulled_with = np.abs(with_the_score.estimate - np.array([0.9, 0.7, 0.5, 0.3])).max()
    pulled_across = np.abs(across_the_score.estimate - np.array([0.3, 0.9, 0.2, 0.8])).max()
    assert pulled_with < 0.03
    assert pulled_across < 0.02  # a fixed weight of 50 episodes would pull by 0.1 and more


def test_one_batch_in_ten_explores_and_goes_to_whoever_ran_least() -> None:
    assert [turn for turn in range(30) if is_exploration_turn(turn, RULES)] == [9, 19, 29]
    assert not any(is_exploration_turn(turn, RaceRules(explore_every=0)) for turn in range(30))
    assert least_run(np.array([0.1, 0.5, 0.3]), np.array([10.0, 40.0, 10.0])) == 2


def test_many_races_at_once_equal_each_race_alone() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(6)
    trials = rng.integers(1, 60, size=(40, 6)).astype(float)
    successes = np.floor(trials * rng.random((40, 6)))
    together = judge_race(scores, successes, trials, RULES)
    for row in range(40):
        alone = judge_race(scores, successes[row], trials[row], RULES)
        assert alone.next == together.next[row]
        assert alone.leader == together.leader[row]
        np.testing.assert_allclose(alone.estimate, together.estimate[row])


def test_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        RaceRules(batch_episodes=10, budget_episodes=5)
    with pytest.raises(ValueError, match="confidence"):
        RaceRules(confidence=1.0)
