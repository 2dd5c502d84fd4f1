"""`opc collect --through-ros`: twin, recorder and behaviour policy as real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.store import open_store

pytestmark = pytest.mark.ros


def test_a_robot_is_recorded_through_its_topics_and_a_second_run_adds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["collect", "--through-ros", "--store", str(tmp_path / "store"), "--episodes", "2", "--robot", "arm1"]
    words += ["--image-size", "64", "--real-time-factor", "4", "--json"]
    assert main(words) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["added"], summary["already_there"]) == (2, 0)
    with open_store(tmp_path / "store") as store:
        for committed in store.episodes():
            episode = store.read(committed.id)
            assert (episode.robot, episode.behaviour_policy, episode.object_set) == ("arm1", "scripted", "train")
            assert episode.steps[0].observe().image.shape == (64, 64, 3)
            assert episode.label.is_success is not None
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 0


def test_an_unknown_policy_ends_with_the_line_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["collect", "--through-ros", "--store", str(tmp_path / "store"), "--episodes", "1", "--policy", "nope"]
    assert main(words) == 1
    assert "behaviour policy 'nope': expected one of scripted" in capsys.readouterr().err
