from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.cli.deploy_simulation import PONG_CORRELATION, known_tables, published_table
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.race_alternatives import choose_by_equal_allocation
from opc_ros.deployment.race_benchmark import run_benchmark
from opc_ros.deployment.simulation import SuccessTable, read_success_table, simulate_races, simulate_table
from opc_ros.errors import DeploymentError
from opc_ros.ranking import spearman
from opc_ros.ranking.synthetic_labs import draw_labs


def test_published_models_are_chosen_well_with_a_tenth_of_the_papers_episodes() -> None:
    table = published_table()
    result = simulate_table(table, RaceRules(), 100, np.random.default_rng(0))
    assert len(table.names) == 15
    assert result.good_fraction(0.03) >= 0.93
    assert result.trials.sum(axis=1).max() <= 1071
    assert abs(np.mean(result.estimate - table.rates[result.winner])) < 0.03


def test_the_benchmark_knows_the_papers_models_the_zoo_and_pong() -> None:
    tables = {table.title: table for table in known_tables()}
    assert {"the paper's 15", "zoo, train", "zoo, test", "zoo, pseudo_real", "Pong's 108"} <= set(tables)
    pong = tables["Pong's 108"]
    assert len(pong.names) == 108
    assert pong.rates.max() == pytest.approx(0.83)
    assert spearman(pong.scores, pong.rates) == pytest.approx(PONG_CORRELATION, abs=0.1)


def test_scores_that_say_nothing_cost_the_race_less_than_equal_allocation_loses() -> None:
    """A star among equals: the one found by trying, however wrong the scores are."""
    rng = np.random.default_rng(0)
    labs = draw_labs("one star", 0.0, 100, rng)
    result = simulate_races(labs.scores, labs.rates, RaceRules(), rng)
    winner = choose_by_equal_allocation(labs.scores, labs.rates, 1071, 10, rng)
    equal = np.mean(labs.rates[np.arange(100), winner] == 0.8)
    assert result.good_fraction(0.03) > equal


def test_a_clear_race_ends_early() -> None:
    table = SuccessTable(("good", "bad"), np.array([0.5, 0.1]), np.array([0.95, 0.05]))
    result = simulate_table(table, RaceRules(), 200, np.random.default_rng(1))
    assert result.is_settled.all()
    assert result.trials.sum(axis=1).mean() < 100
    assert result.good_fraction(0.0) == 1.0


def test_a_single_race_ends_whatever_the_next_batch_would_have_been() -> None:
    table = SuccessTable(("good", "bad"), np.array([0.5, 0.1]), np.array([0.95, 0.05]))
    for seed in range(12):
        assert simulate_table(table, RaceRules(), 1, np.random.default_rng(seed)).is_settled.all()


def test_a_candidate_that_is_surely_not_near_the_best_gets_no_more_episodes() -> None:
    """Two that cannot be separated keep the race going; every other batch goes to the one that has run least."""
    table = SuccessTable(("good", "as good", "bad"), np.zeros(3), np.array([0.8, 0.8, 0.05]))
    rules = RaceRules(budget_episodes=600, tolerance=0.0, confidence=0.99, explore_every=2)
    trials = simulate_table(table, rules, 20, np.random.default_rng(0)).trials
    assert trials[:, 2].mean() < 60  # a third of the exploring half would be 100
    assert trials[:, 2].min() >= 10


def test_the_benchmark_says_how_far_ahead_the_race_is_and_how_far_it_has_got() -> None:
    heard: list[tuple[int, int, str]] = []
    rules = RaceRules(budget_episodes=100)
    only = "uniform, correlation 0.95"
    (cell,) = run_benchmark([], rules, 4, 0, only, lambda done, total, note="": heard.append((done, total, note)))
    assert cell.ahead == pytest.approx(cell.good["race"] - cell.good[cell.best])
    assert cell.good[cell.best] == max(share for method, share in cell.good.items() if method != "race")
    assert heard == [(4, 4, only)]


def test_the_same_seed_gives_the_same_simulation() -> None:
    table = published_table()
    rules = RaceRules(budget_episodes=100)
    first, second = (simulate_table(table, rules, 20, np.random.default_rng(3)) for _ in range(2))
    assert first.winner.tolist() == second.winner.tolist()
    assert first.trials.tolist() == second.trials.tolist()


def test_success_may_be_given_as_fractions(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("name,score,success\na,0.1,0.5\nb,0.2,1.0\n")
    assert read_success_table(path).rates.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,score\na,0.1\n", "expected a header with name, score, success"),
        ("name,score,success\n", "at least one line"),
        ("name,score,success\na,x,1\n", "must be numbers"),
        ("name,score,success\na,0.1\n", "must be numbers"),
        ("name,score,success\na,nan,1\n", "expected finite"),
        ("name,score,success\na,0.1,140\n", "expected finite"),
    ],
)
def test_a_bad_table_is_named_with_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(DeploymentError, match=complaint):
        read_success_table(path)
