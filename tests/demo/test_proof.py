"""The demo's last act: what was expected of each candidate beside its true success."""

from __future__ import annotations

import json
from pathlib import Path

from opc_ros.demo.judging import describe_forecast
from opc_ros.demo.lab_history import LabHistory
from opc_ros.demo.plan import DemoPlan
from opc_ros.demo.proof import describe_proof, write_proof
from opc_ros.demo.running import Ran
from opc_ros.demo.truth import read_truth
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.gate import predict_field
from tests.deployment.ranked_field import RANKING

NEW = ("a", "b", "c")
HISTORY = LabHistory((), {name: RealResult(90 - 5 * index, 100) for index, name in enumerate("defghi")}, 600, 400, 0)


def make_plan(folder: Path) -> DemoPlan:
    table = folder / "truth.csv"
    table.write_text("name,successes,trials\npolicy a,160,200\npolicy b,180,200\npolicy c,100,200\n")
    return DemoPlan(folder, folder / "zoo", truth=table)


def test_the_proof_shows_prediction_and_truth_and_the_regret_of_the_champion(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    requests = [{"candidate_id": "a", "real": {"successes": 7, "trials": 8}}]
    ran = Ran({"champion": "a", "requests": requests}, is_cut_off=False)
    lines = describe_proof(plan, RANKING, NEW, HISTORY, ran)
    assert [line.split()[1] for line in lines[1:4]] == ["b", "a", "c"]  # the truly best first
    assert "7 of 8" in lines[2]
    assert lines[2].endswith("80%")
    assert lines[-1] == "  champion policy a, true success 80%: 10 points below the best, policy b"


def test_at_full_speed_is_whoever_got_a_permit_for_it(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    log = AuditLog(plan.audit_log)
    for candidate, rung in (("a", "reduced"), ("a", "full"), ("c", "reduced")):
        log.append("permit", {"candidate_id": candidate, "rung": rung}, 1)
    requests = [{"candidate_id": each, "rung": "full", "real": {"successes": 5, "trials": 8}} for each in ("a", "c")]
    path = write_proof(plan, RANKING, NEW, Ran({"champion": "a", "requests": requests}, is_cut_off=False))
    assert path is not None
    assert json.loads(path.read_text())["at_full_speed"] == {"policy a": 0.8}


def test_without_measured_success_the_proof_says_so(tmp_path: Path) -> None:
    plan = DemoPlan(tmp_path, tmp_path / "zoo")
    assert read_truth(plan.truth) == {}
    ran = Ran({"champion": "", "requests": []}, is_cut_off=False)
    assert "nobody has measured" in describe_proof(plan, RANKING, NEW, HISTORY, ran)[0]


def test_the_forecast_lists_new_candidates_alone() -> None:
    lines = describe_forecast(RANKING, predict_field(RANKING, HISTORY.results), NEW)
    assert len(lines) == 4
