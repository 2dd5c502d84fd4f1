from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.cli.deploy import published_table
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.simulation import SuccessTable, read_success_table, simulate_races
from opc_ros.errors import DeploymentError


def test_published_models_are_chosen_well_with_a_tenth_of_the_papers_episodes() -> None:
    table = published_table()
    result = simulate_races(table, RaceRules(), 2000, np.random.default_rng(0))
    assert len(table.names) == 15
    assert result.good_fraction >= 0.95
    assert result.episodes_most <= 1071
    assert result.equal_episodes > 5 * result.episodes_mean


def test_a_race_without_informative_scores_still_beats_equal_testing() -> None:
    table = published_table()
    result = simulate_races(table, RaceRules(), 1000, np.random.default_rng(0), is_score_shuffled=True)
    assert result.good_fraction > 0.7
    assert result.equal_episodes > 1.5 * result.episodes_mean


def test_a_clear_race_ends_early_and_with_proof() -> None:
    table = SuccessTable(("good", "bad"), np.array([0.5, 0.1]), np.array([0.95, 0.05]))
    result = simulate_races(table, RaceRules(), 200, np.random.default_rng(1))
    assert result.settled_fraction == 1.0
    assert result.episodes_mean < 200
    assert result.best_fraction == 1.0


def test_the_same_seed_gives_the_same_simulation() -> None:
    table = published_table()
    first, second = (simulate_races(table, RaceRules(), 50, np.random.default_rng(3)) for _ in range(2))
    assert first == second


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
