"""`opc collect` fills a store, resumes by seed, and refuses in one line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.store import open_store
from tests.policies.making import make_candidate


def arguments(store: Path, *extra: str) -> list[str]:
    return ["collect", "--store", str(store), "--image-size", "32", "--workers", "1", *extra]


def test_a_second_run_adds_only_what_is_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    assert main(arguments(store, "--episodes", "2", "--seed", "1", "--json")) == 0
    first = json.loads(capfd.readouterr().out)
    assert (first["added"], first["already_there"]) == (2, 0)
    before = {path: path.read_bytes() for path in store.rglob("*.mcap")}
    assert main(arguments(store, "--episodes", "3", "--json")) == 0
    second = json.loads(capfd.readouterr().out)
    assert (second["added"], second["already_there"]) == (1, 2)
    assert all(path.read_bytes() == content for path, content in before.items())
    with open_store(store) as opened:
        committed = list(opened.episodes())
        assert [episode.id for episode in committed] == [f"train-scripted-32px-{seed:08d}" for seed in range(3)]
        assert {(episode.behaviour_policy, episode.object_set) for episode in committed} == {("scripted", "train")}
        successes = sum(episode.label.is_success is True for episode in committed)
    assert successes == first["successes_added"] + second["successes_added"]


def test_a_candidate_plays_for_a_store_under_its_id(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parameters = {"architecture": "tool_crop", "image_size": 32, "cells": 8, "channels": [4]}
    candidate = make_candidate(tmp_path / "candidate", name="first+00400", **parameters)
    playing = [
        "collect",
        "--workers",
        "1",
        "--candidate",
        str(candidate.folder),
        "--world",
        "test",
        "--json",
        "--fixed-stamps",
    ]
    assert main([*playing, "--store", str(tmp_path / "store"), "--episodes", "2"]) == 0
    assert json.loads(capfd.readouterr().out)["added"] == 2
    assert main([*playing, "--store", str(tmp_path / "store"), "--episodes", "3"]) == 0
    assert json.loads(capfd.readouterr().out)["already_there"] == 2
    assert main([*playing, "--store", str(tmp_path / "again"), "--episodes", "3", "--workers", "2"]) == 0
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "again") as again:
        episodes, others = list(store.episodes()), list(again.episodes())
    assert [e.id for e in episodes] == [f"test-first_00400-{candidate.id[:12]}-32px-{seed:08d}" for seed in range(3)]
    assert {e.behaviour_policy for e in episodes} == {candidate.id}
    assert [e.file_sha256 for e in episodes] == [e.file_sha256 for e in others]


def test_a_candidate_with_random_actions_is_another_policy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parameters = {"architecture": "tool_crop", "image_size": 32, "cells": 8, "channels": [4]}
    candidate = make_candidate(tmp_path / "candidate", name="first", **parameters)
    store = tmp_path / "store"
    assert main(arguments(store, "--episodes", "1", "--candidate", str(candidate.folder), "--epsilon", "0.5")) == 0
    with open_store(store) as opened:
        (episode,) = opened.episodes()
    assert episode.id == f"train-first-{candidate.id[:12]}-random0.5-32px-00000000"
    assert episode.behaviour_policy == f"{candidate.id}+random0.5"
    capfd.readouterr()
    assert main(arguments(store, "--episodes", "1", "--epsilon", "0.5")) == 1
    assert "expected together with --candidate" in capfd.readouterr().err


def test_an_unknown_world_is_refused_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path / "store", "--episodes", "1", "--world", "mars")) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("opc: world 'mars': expected one of train, test")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_help_answers_without_loading_physics() -> None:
    program = "import sys; from opc_ros.cli.main import build_parser; build_parser(); print('pybullet' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_collected_episodes_are_dated_when_they_were_collected(tmp_path: Path) -> None:
    before = time.time_ns()
    assert main(arguments(tmp_path / "store", "--episodes", "1")) == 0
    with open_store(tmp_path / "store") as store:
        (committed,) = store.episodes()
        episode = store.read(committed.id)
    assert before < episode.steps[-1].frame.stamp_ns <= time.time_ns()
    assert before - 600 * 10**9 < committed.began_ns < episode.steps[-1].frame.stamp_ns
