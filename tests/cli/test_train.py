from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.episode import Label, LabelSource
from opc_ros.policies.candidate import read_candidate
from opc_ros.store import open_store
from tests.policies.making import make_episode, make_episodes, make_store

BOOK = """
shared:
  architecture: whole_image
  image_size: 32
  batch_size: 8
  cem_samples: 4
  hyper_parameters: {stem_channels: 4, trunk_channels: [4], head_channels: [4], tail_channels: [], hidden: [8]}
recipes:
- {name: short, steps: 2}
- {name: long, steps: 3, checkpoints: [1], targets: monte_carlo}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_store("store", make_episodes(24, image_size=32))
    Path("book.yaml").write_text(BOOK)
    return tmp_path


def test_what_train_writes_score_takes_as_it_is(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "book.yaml", "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert [row["folder"] for row in trained] == ["short-00002", "long-00001", "long-00003"]
    with open_store("store") as store:
        snapshot = store.take_snapshot()
    assert read_candidate("candidates/long-00003").manifest.provenance.data_snapshot == snapshot.id
    assert main(["score", "--resamples", "10"]) == 1
    assert "has played or was trained on 24 of 24 episodes" in capsys.readouterr().err
    with open_store("store") as store:
        for seed in range(100, 160):
            store.append(make_episode(seed, image_size=32))
    assert main(["score", "--resamples", "10", "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)["ranking"]
    assert {row["candidate_id"] for row in ranking["candidates"]} == {row["candidate_id"] for row in trained}
    assert {row["own_episodes"] for row in ranking["candidates"]} == {24}


def test_one_recipe_may_be_chosen_and_changed(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "book.yaml", "--only", "short", "--set", "steps=1", "--out", "other"]) == 0
    assert capsys.readouterr().out.startswith("other/short-00001: loss 0.")
    assert main(["train", "book.yaml", "--only", "shrot"]) == 1
    assert "no recipe 'shrot', expected one of short, long" in capsys.readouterr().err


def test_a_store_without_successes_is_refused_before_any_training(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = Label(is_success=False, source=LabelSource.PERSON, labeller="ada")
    with open_store("failures", create=True) as store:
        for episode in make_episodes(24, image_size=32):
            store.append(dataclasses.replace(episode, label=failure))
    assert main(["train", "book.yaml", "--store", "failures"]) == 1
    assert "recipe short: snapshot" in (error := capsys.readouterr().err)
    assert "0 of 24 episodes succeeded, expected at least 2" in error
    assert not Path("candidates").exists()


def test_too_few_episodes_for_any_recipe_stop_all_before_the_first(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("book.yaml").write_text(BOOK + "- {name: starved, like: ['e0000*']}\n")
    assert main(["train", "book.yaml"]) == 1
    assert "recipe starved" in (error := capsys.readouterr().err)
    assert "10 episodes to learn from, expected at least 20" in error
    assert not Path("candidates").exists()


def test_images_smaller_than_the_recipe_wants_are_refused(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "book.yaml", "--set", "image_size=64"]) == 1
    assert "image of step 0 is 32x32, expected square and at least 64x64" in capsys.readouterr().err
    assert not Path("candidates").exists()


def test_evaluate_prints_and_keeps_what_it_knows(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "book.yaml", "--only", "short"]) == 0
    arguments = ["evaluate", "--world", "train", "--episodes", "1", "--workers", "1"]
    assert main([*arguments, "--known-success", "known.csv"]) == 0
    assert "short-00002" in capsys.readouterr().out
    candidate = read_candidate("candidates/short-00002")
    header, row = Path("known.csv").read_text().splitlines()
    assert header == "candidate,success,episodes"
    assert row in (f"{candidate.id},0.000000,1", f"{candidate.id},1.000000,1")
    assert main(["evaluate", "--world", "train", "--known", "--json"]) == 0
    (known,) = json.loads(capsys.readouterr().out)
    assert (known["candidate_id"], known["episodes"]) == (candidate.id, 1)


def test_known_success_needs_one_world(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--known-success", "known.csv"]) == 1
    assert "3 worlds, expected one" in capsys.readouterr().err
