"""A candidate of kind policy beside Q functions: exported, tried, scored in one field and put before the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from opc_ros.bringup.config_files import find_config
from opc_ros.cli.main import main
from opc_ros.config import load_config
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.gate import decide
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.gatekeeper import learn_snapshot
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.store import open_store
from opc_ros.workflows.ranking_archive import RankingArchive
from tests.policies.acting import make_policy
from tests.policies.making import make_candidate, make_episodes, make_store

MODULE = """
import torch
from tests.policies.acting import Reaching

def build():
    return Reaching()

def build_samples():
    return Reaching(samples=3)

def build_mean():
    return torch.nn.Flatten()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reaching.py").write_text(MODULE)
    make_store(tmp_path / "store", make_episodes(20, image_size=32))
    return tmp_path


def export(*more: str) -> int:
    return main(["candidate", "export", "reaching.py:build", "--kind", "policy", "--image-size", "16", *more])


def test_a_policy_is_exported_tried_shown_and_meets_its_deadline(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("--name", "reaching") == 0
    kept = CandidateRegistry("candidates").find("reaching")
    assert kept.manifest.input.arguments == ("image", "tool")
    assert main(["candidate", "check", "reaching"]) == 0
    assert "it can be scored" in capsys.readouterr().out
    assert main(["candidate", "list"]) == 0
    assert "policy  onnx" in capsys.readouterr().out
    assert main(["candidate", "show", "reaching"]) == 0
    assert "kind: policy" in capsys.readouterr().out
    assert main(["doctor", "--policy", "reaching"]) == 0
    assert "search    the network's own answer" in capsys.readouterr().out
    file = str(kept.folder / kept.manifest.artifact)
    assert main(["candidate", "new", file, "--name", "asked", "--kind", "policy"]) == 0
    assert CandidateRegistry("candidates").find("asked").manifest.input == kept.manifest.input


def test_what_is_wrong_about_kinds_and_samples_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("--name", "few", "--samples", "4") == 1
    assert "returned shape (3, 8) for 3 states, expected (3, 4, 8)" in capsys.readouterr().err
    sampled = ["candidate", "export", "reaching.py:build_samples", "--name", "x", "--image-size", "16"]
    assert main([*sampled, "--samples", "3"]) == 1
    assert "only a policy returns actions: add --kind policy" in capsys.readouterr().err
    assert main([*sampled, "--kind", "policy", "--arguments", "image,tool,action"]) == 1
    assert "expected image, tool if used, once each, for a policy" in capsys.readouterr().err
    assert main([*sampled, "--kind", "policy", "--samples", "3"]) == 0
    capsys.readouterr()
    file = CandidateRegistry("candidates").find("x").folder / "policy.onnx"
    assert main(["candidate", "new", str(file), "--name", "y"]) == 1
    assert "expected image and action" in capsys.readouterr().err


def test_both_kinds_rank_in_one_field_and_the_gate_passes_nobody_on_a_judges_score(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("--name", "reaching") == 0
    make_policy(folder / "candidates" / "points")
    make_candidate(folder / "candidates" / "q", image_size=32)
    capsys.readouterr()
    # With a score by Q the policies are named and left out.
    assert main(["score", "--no-publish"]) == 1
    printed = capsys.readouterr()
    assert "reaching left out: candidate reaching: is a policy" in printed.err
    assert "score it with --metric critic" in printed.err
    # With a judge all are ranked, and the second time nothing is computed.
    assert main(["score", "--metric", "critic", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in first["ranking"]["candidates"]} == {"reaching", "keypoints-0", "whole_image-0"}
    assert first["pairs_evaluated"] == 60
    assert all(set(metrics) == {"critic"} for metrics in first["metrics"].values())
    assert main(["rank", "--metric", "critic", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["ranking"]["candidates"] == first["ranking"]["candidates"]
    assert main(["rank", "--metric", "agreement", "--json"]) == 0
    capsys.readouterr()
    assert main(["score", "--metric", "critic", "--baselines"]) == 1
    assert "baselines ask for Q" in capsys.readouterr().err
    # Rules under which any score by Q would pass.
    rules = yaml.safe_load(find_config("gate.yaml").read_text())
    rules |= {"metric": "critic", "approval": [], "agreement": {"spearman": -1.0}}
    rules["within"] = {"tolerance": 0.9, "confidence": 0.0, "doubt": 0.0}
    rules["floor"] = {"success": 0.0, "confidence": 0.0, "doubt": 0.0}
    rules["snapshot"] |= {"episodes": 2, "successes": 1, "failures": 1, "age_days": 36500.0}
    (folder / "gate.yaml").write_text(yaml.safe_dump(rules))
    ranking = RankingArchive(folder / "scores").read("published")
    with open_store(folder / "store") as store:
        facts = learn_snapshot(store, ranking.snapshot_id)
    decision = decide(
        CandidateRegistry("candidates").find("reaching").id,
        ranking,
        facts,
        load_config(folder / "gate.yaml", GateRules),
        now_ns=facts.newest_ns,
    )
    assert decision.verdict is Verdict.INCONCLUSIVE
    (reason,) = decision.reasons
    assert reason.endswith("(critic) and has 0 real episodes of its own; the rules ask for 10")
    assert decision.is_explorable
