from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.errors import ConfigError
from sim_bridge.training.recipe import TrainingRecipe, describe_keys, load_recipes, make_recipe

IDS = [f"train-scripted-96px-{n:08d}" for n in range(6)] + [f"train_heavy-scripted-96px-{n:08d}" for n in range(4)]


def test_patterns_choose_episodes_by_id() -> None:
    assert TrainingRecipe().choose_episodes(IDS) == list(range(10))
    assert TrainingRecipe(like=("train_heavy-*",)).choose_episodes(IDS) == [6, 7, 8, 9]


def test_little_data_is_drawn_by_the_seed_from_what_fits() -> None:
    chosen = TrainingRecipe(like=("train-*",), episodes=3, seed=5).choose_episodes(IDS)
    assert len(set(chosen)) == 3
    assert set(chosen) <= set(range(6))
    assert chosen == TrainingRecipe(like=("train-*",), episodes=3, seed=5).choose_episodes(IDS)
    draws = {tuple(TrainingRecipe(episodes=3, seed=seed).choose_episodes(IDS)) for seed in range(10)}
    assert len(draws) > 1


def test_a_book_shares_keys_and_changes_win(tmp_path: Path) -> None:
    book = tmp_path / "book.yaml"
    book.write_text("shared: {gamma: 0.5, steps: 7}\nrecipes:\n- {name: a}\n- {name: b, steps: 9}\n")
    a, b = load_recipes(book, ["seed=3", "checkpoints=[2]"])
    assert (a.gamma, a.steps, a.seed, a.checkpoints) == (0.5, 7, 3, (2,))
    assert (b.gamma, b.steps) == (0.5, 9)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"gama": 0.5}, "unknown key 'gama'"),
        ({"gamma": 1.5}, "gamma: got 1.5, expected from 0 to 1"),
        ({"steps": 5, "checkpoints": [6]}, "checkpoint at step 6, expected from 1 to 5"),
        ({"name": "a/b"}, "name is 'a/b'"),
        ({"targets": "td"}, "expected one of 'bellman', 'monte_carlo'"),
    ],
)
def test_a_wrong_recipe_is_refused_by_key(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make_recipe(values)


def test_two_recipes_of_one_name_are_refused(tmp_path: Path) -> None:
    book = tmp_path / "book.yaml"
    book.write_text("recipes: [{name: a}, {name: a}]\n")
    with pytest.raises(ConfigError, match="name 'a' given to 2 recipes"):
        load_recipes(book)


def test_every_key_is_described() -> None:
    lines = describe_keys()
    assert "gamma: 0.9  # discount for each step" in lines
    assert all("# " in line for line in lines)
