from __future__ import annotations

from tests.scoring.graded_players import PLAYERS, judge_players


def test_both_judges_order_players_of_known_skill_and_put_one_of_the_best_first() -> None:
    assert len(PLAYERS) == 24
    for name, (correlation, regret) in judge_players(episodes=120, trials=40).items():
        assert correlation > 0.8, (name, correlation)
        assert regret <= 0.1, (name, regret)
