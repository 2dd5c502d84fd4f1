from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.store import open_store
from tests.policies.making import SMALL, make_candidate, make_episodes


def test_the_lab_fits_on_one_screen_with_what_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 0
    assert "no such folder" in capsys.readouterr().out
    episodes = make_episodes(8)
    with open_store("store", create=True) as store:
        for episode in episodes:
            store.append(episode)
    make_candidate(tmp_path / "candidates" / "a", name="first", image_size=32, **SMALL)
    assert main(["score"]) == 0
    make_candidate(tmp_path / "candidates" / "b", name="second", seed=1, image_size=32, **SMALL)
    assert main(["keys", "create", "deployment/keys"]) == 0
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    lines = dict(reversed(told["lines"]))
    successes = sum(episode.label.is_success is True for episode in episodes)
    assert lines["store"] == f"8 episodes, {successes} successes, {8 - successes} failures"
    assert lines["candidates"] == "2 registered"
    assert "published, 1 candidates by" in lines["ranking"]
    assert lines["deployment"] == "champion none"
    assert told["waiting"] == ["1 candidates are not in the published ranking (second): `opc score`"]
    assert main(["status"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 24


def test_the_first_tutorial_ends_with_a_ranking_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "opc_ros" / "docs" / "tutorials" / "first-ranking.md").read_text()
    lines = re.findall(r"```sh\n(.*?)```", page, flags=re.S)[0].splitlines()
    monkeypatch.chdir(tmp_path)
    for line in lines:
        words = shlex.split(line.replace("ZOO", str(root / "sim_bridge" / "zoo" / "candidates")), comments=True)
        assert main(words[1:]) == 0, (line, capsys.readouterr())
    printed = capsys.readouterr().out
    assert "published: the gate reads ranking" in printed
    assert "final-00800" in printed
