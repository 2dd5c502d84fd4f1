from __future__ import annotations

import numpy as np
import pytest

from opc_ros.deployment.race import (
    RaceRules,
    choose_by_results,
    choose_next,
    find_duel,
    is_exploration_turn,
    judge_race,
    least_run,
)
from opc_ros.deployment.race_alternatives import ALTERNATIVES
from opc_ros.deployment.race_belief import RaceBelief
from opc_ros.ranking.predicted_success import Field, predict_success

RULES = RaceRules()


def standing_of(successes: list[int], trials: list[int], scores: list[float] | None = None):  # type: ignore[no-untyped-def]
    predicted = predict_success(Field.of(scores or [0.0] * len(trials), successes, trials))
    return judge_race(predicted.weight, predicted.density, RULES)


def test_without_results_the_best_score_leads_and_nobody_has_won() -> None:
    standing = standing_of([0, 0, 0], [0, 0, 0], [0.1, 0.3, 0.2])
    assert standing.leader == 1
    assert standing.is_in_race.all()
    assert not standing.is_settled


def test_a_clear_leader_settles_the_race_and_sends_the_others_home() -> None:
    standing = standing_of([450, 100, 20], [500, 500, 100])
    assert standing.leader == 0
    assert standing.is_settled
    assert standing.is_in_race.tolist() == [True, False, False]


def test_less_is_required_once_scores_have_proved_to_predict() -> None:
    rules = RaceRules(confidence=0.97, trusted_confidence=0.9)
    assert rules.confidence_at(np.array([-1.0, 0.87, 0.88, 1.0])).tolist() == [0.97, 0.97, 0.9, 0.9]
    assert RaceRules(confidence=0.9).confidence_at(1.0) == 0.9
    predicted = predict_success(Field.of([0.0] * 2, [157, 150], [200, 200]))
    lead = judge_race(predicted.weight, predicted.density, rules).lead
    assert 0.9 < lead < 0.97
    assert not judge_race(predicted.weight, predicted.density, rules, 0.87).is_settled
    assert judge_race(predicted.weight, predicted.density, rules, 0.88).is_settled


def test_two_equally_good_candidates_settle_the_race_once_both_are_known() -> None:
    assert not standing_of([8, 8], [10, 10]).is_settled
    assert standing_of([1600, 1600], [2000, 2000]).is_settled


def test_the_leader_meets_the_candidate_most_likely_to_be_clearly_better() -> None:
    """Well known, hardly known and hopeless: only the second may still be more than 3 points better than the leader."""
    predicted = predict_success(Field.of([0.0] * 4, [800, 8, 780, 10], [1000, 11, 1000, 100]))
    duel = find_duel(predicted.weight, predicted.density, RULES.tolerance)
    assert (duel.leader, duel.challenger) == (0, 1)
    assert duel.chance == pytest.approx(predicted.better_than(0, RULES.tolerance)[1])
    assert duel.leader_share < 0.05  # nearly all uncertainty about their difference is the second's
    within = predicted.within(RULES.tolerance)[0]
    assert within <= 1.0 - duel.chance
    rng = np.random.default_rng(0)
    picks = [int(choose_next(duel, rng)) for _ in range(400)]
    assert set(picks) <= {0, 1}
    assert np.mean(np.equal(picks, 0)) == pytest.approx(duel.leader_share, abs=0.03)


def test_two_equally_well_known_candidates_share_the_episodes() -> None:
    predicted = predict_success(Field.of([0.0] * 4, [80, 80, 20, 10], [100, 100, 100, 100]))
    duel = find_duel(predicted.weight, predicted.density, RULES.tolerance)
    assert {int(duel.leader), int(duel.challenger)} == {0, 1}
    assert duel.leader_share == pytest.approx(0.5, abs=0.01)


def test_whoever_is_out_of_the_race_neither_leads_nor_threatens() -> None:
    predicted = predict_success(Field.of([0.0] * 3, [90, 5, 4], [100, 8, 8]))
    duel = find_duel(predicted.weight, predicted.density, 0.03, np.array([False, True, True]))
    assert (duel.leader, duel.challenger) == (1, 2)
    alone = find_duel(predicted.weight, predicted.density, 0.03, np.array([False, False, True]))
    assert (alone.leader, alone.challenger, alone.chance) == (2, 2, 0.0)
    rng = np.random.default_rng(0)
    results = np.array([90, 5, 4]), np.array([100, 8, 8])
    assert {int(choose_by_results(*results, rng, np.array([False, True, True]))) for _ in range(50)} == {1, 2}
    assert int(choose_by_results(*results, rng, np.array([False, False, True]))) == 2


def test_a_worse_challenger_hardly_ever_takes_over() -> None:
    """82 % against a champion of 88 % known from 50 episodes; merely comparing rates replaces it in a third."""
    rng = np.random.default_rng(0)
    taken = 0
    for _ in range(60):
        field = Field.of([0.0, 0.0], rng.binomial(50, [0.88, 0.82]), [50, 50])
        taken += predict_success(field).better_than(0)[1] >= RULES.crown_confidence
    assert taken <= 2


def test_a_candidate_that_races_alone_is_chosen() -> None:
    predicted = predict_success(Field.of([0.2], [5], [10]))
    assert choose_next(find_duel(predicted.weight, predicted.density, 0.03), np.random.default_rng(0)) == 0


def test_simulated_races_believe_what_the_scheduler_believes() -> None:
    scores = np.array([[0.1, 0.5, 0.9, 0.3]])
    belief = RaceBelief(scores)
    successes, trials = np.array([3, 12, 15, 0]), np.array([20, 20, 20, 0])
    for index in range(3):
        belief.learn(np.array([0]), np.array([index]), successes[[index]], trials[[index]])
    density = belief.densities(np.array([0]), 400, np.random.default_rng(0), is_even=True)
    weight = np.full((1, 400), 1 / 400)
    simulated = judge_race(weight, density, RULES)
    predicted = predict_success(Field.of(scores[0], successes, trials))
    exact = judge_race(predicted.weight, predicted.density, RULES)
    assert simulated.mean[0] == pytest.approx(exact.mean, abs=0.015)
    assert simulated.within[0] == pytest.approx(exact.within, abs=0.02)
    assert belief.correlation(np.array([0]))[0] == pytest.approx(predicted.correlation, abs=0.02)


def test_one_batch_in_ten_goes_to_the_candidate_that_has_run_least() -> None:
    turns = [turn for turn in range(30) if is_exploration_turn(turn, RULES)]
    assert turns == [9, 19, 29]
    assert not any(is_exploration_turn(turn, RaceRules(explore_every=0)) for turn in range(30))
    assert least_run(np.array([0.1, 0.3, 0.2]), np.array([5.0, 5.0, 10.0])) == 1


@pytest.mark.parametrize("method", sorted(ALTERNATIVES))
def test_every_alternative_finds_a_candidate_that_towers_over_the_others(method: str) -> None:
    rates = np.tile([0.1, 0.2, 0.95, 0.1, 0.3], (50, 1))
    winner = ALTERNATIVES[method](rates, rates, 300, 10, np.random.default_rng(0))
    assert np.mean(winner == 2) > 0.95


def test_rules_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        RaceRules(batch_episodes=10, budget_episodes=5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        RaceRules(confidence=1.0)
    with pytest.raises(ValueError, match="trusted_confidence is"):
        RaceRules(trusted_confidence=0.98)
    with pytest.raises(ValueError, match="drop_below"):
        RaceRules(drop_below=0.2)
    with pytest.raises(ValueError, match="crown_confidence"):
        RaceRules(crown_confidence=0.2)
