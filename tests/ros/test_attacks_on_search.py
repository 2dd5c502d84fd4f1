"""Candidates registered over DDS by anybody: good weights with a worthless action search do not pass the gate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import Ranking as RankingMsg
from opc_interfaces.srv import RegisterCandidate

from opc_ros.config import parse_config
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.gate import SnapshotFacts, decide
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.errors import ConfigError
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.candidate import write_candidate
from opc_ros.ranking import Ranking
from opc_ros.ros import topics
from tests.deployment.lab import GATE
from tests.policies.making import make_candidate, make_episodes, make_store

pytestmark = pytest.mark.ros
NOW_NS = 10**18


def test_a_copy_that_looks_at_one_action_ties_with_the_original_and_is_refused(
    start: Callable[..., Any], probe: Any, tmp_path: Path
) -> None:
    make_store(tmp_path / "store", make_episodes(20))
    original = make_candidate(tmp_path / "candidates" / "original", image_size=32)
    manifest = dataclasses.replace(
        original.manifest, name="copy", action_search=CrossEntropySearch(samples=1, elites=1, rounds=1)
    )
    copy = write_candidate(tmp_path / "copy", manifest, original.artifact_bytes)
    folders = {"store": tmp_path / "store", "candidates": tmp_path / "candidates", "scores": tmp_path / "scores"}
    heard = probe.listen(RankingMsg, "/lab/ranking", topics.LATEST)
    start("scorer", "/lab", **folders, resamples=50, workers=1, rescore_s=0.5)
    answer = probe.call(RegisterCandidate, "/lab/register_candidate", path=str(tmp_path / "copy"))
    assert (answer.success, answer.candidate_id) == (True, copy.id)
    probe.until(lambda: heard and len(heard[-1].scores) == 2, "the copy is not ranked")

    ranking = Ranking.from_json(heard[-1].document)
    assert ranking.find(copy.id).score == ranking.find(original.id).score
    facts = SnapshotFacts(ranking.snapshot_id, ranking.episodes, ranking.successes, NOW_NS, ("scripted",))
    rules = parse_config(GATE | {"metric": ranking.metric}, GateRules, where="gate", error=ConfigError)
    verdicts = {
        candidate.id: decide(candidate.id, ranking, facts, rules, now_ns=NOW_NS) for candidate in (original, copy)
    }
    assert verdicts[original.id].verdict is Verdict.PASS
    failed = [each for each in verdicts[copy.id].findings if each.verdict is Verdict.FAIL]
    assert [each.rule for each in failed] == ["search"]
    assert "what would run is not what was scored" in failed[0].sentence
