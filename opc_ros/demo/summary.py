"""The end of the demo: scores and success, the report, and a summary on one screen."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Collection
from pathlib import Path

from opc_ros.bringup.config_files import find_config
from opc_ros.demo.collecting import Recorded
from opc_ros.demo.judging import TAG, Judged
from opc_ros.demo.lab import shorten
from opc_ros.demo.lab_history import LabHistory
from opc_ros.demo.plan import DemoPlan
from opc_ros.demo.proof import results_of
from opc_ros.demo.running import Ran
from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.decision import RealResult, Verdict
from opc_ros.deployment.gate import predict_field
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.ranking import Ranking
from opc_ros.scoring.engines import NoEngine
from opc_ros.workflows.scoring_run import RankingOptions
from opc_ros.workflows.store_scoring import StoreScoring, score_store


def write_report(plan: DemoPlan, ranking: Ranking, ran: Ran) -> Path:
    """Write the scorer's report again, now with the success on the arms."""
    measured = plan.folder / "measured.csv"
    with measured.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("candidate", "success", "episodes"))
        for request in ran.tried:
            real = request["real"]
            rows.writerow((request["candidate_id"], real["successes"] / real["trials"], real["trials"]))
    run = score_store(
        StoreScoring(
            store=plan.store,
            registry=plan.folder / "candidates",
            scores=plan.folder / "scores",
            snapshot=TAG,
            known_success=measured if ran.tried else None,
            keys=plan.folder / "deployment" / "keys",
            deployment=plan.folder / "deployment",
            gate=find_config(plan.gate_config),
            options=RankingOptions(metric=ranking.metric, top_k=ranking.top_k),
        ),
        NoEngine(),
        now=lambda: datetime.datetime.now(datetime.UTC),
    )
    return run.page


def summarise(
    plan: DemoPlan,
    recorded: Recorded,
    ranking: Ranking,
    judged: Judged,
    ran: Ran,
    history: LabHistory,
    page: Path,
) -> list[str]:
    """At most 20 lines of 100 characters."""
    passed, asked, refused = (judged.count(verdict) for verdict in (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL))
    lines = [
        f"  recorded   {recorded.episodes} episodes on {len(plan.robots)} {plan.world} arms, {recorded.describe()}",
        f"  scored     {len(ranking.candidates)} candidates by {ranking.metric}, snapshot {ranking.snapshot_id[:12]}",
        f"  gate       {passed} pass, {asked} left open, {refused} refused; tampered: {judged.tampered.state}",
        *_describe_runs(ran),
        f"  agreement  {_describe_agreement(ranking, history, ran)}",
        f"  champion   {_describe_champion(ran)}",
        f"  audit log  {_describe_audit_log(plan)}",
        f"  report     {shorten(page)}",
    ]
    return lines


def next_commands(plan: DemoPlan, ranking: Ranking, new: Collection[str]) -> list[str]:
    """Commands to try now, with the id of the first new candidate."""
    best = next(each.name for each in ranking.candidates if each.candidate_id in new)
    given = f"image_size:={plan.image_size} real_time_factor:={plan.real_time_factor:g}"
    return [
        f"  cd {shorten(plan.folder)}",
        f"  opc gate explain {best} --gate {plan.gate_config}",
        "  opc audit show",
        f"  opc up twin {given} scheduler_config:={plan.scheduler_config}",
    ]


def _describe_runs(ran: Ran) -> list[str]:
    if not ran.tried:
        return ["  ran        no candidate moved an arm"]
    lines: list[str] = []
    for request in sorted(ran.tried, key=lambda request: -request["score"])[:5]:
        real = request["real"]
        low, high = real["interval"]
        word = "  ran        " if not lines else " " * 13
        lines.append(
            f"{word}{request['name']:<20} score {request['score']:.4f}, on the arms {real['successes']} of"
            f" {real['trials']} ({low:.0%} to {high:.0%})"
        )
    return lines


def _describe_agreement(ranking: Ranking, history: LabHistory, ran: Ran) -> str:
    real = results_of(history, ran)
    tried = sum(real.get(each.candidate_id, RealResult(0, 0)).trials > 0 for each in ranking.candidates)
    if not tried or len(ranking.candidates) < 3:
        return f"of score and success: unknown; {tried} of {len(ranking.candidates)} candidates have run"
    found = predict_field(ranking, real).agreement()
    return (
        f"rank correlation of score and success {found.mean:.2f} ({found.low:.2f} to {found.high:.2f}),"
        f" by the results of {tried}"
    )


def _describe_champion(ran: Ran) -> str:
    champion = ran.status["champion"]
    if champion:
        names = {request["candidate_id"]: request["name"] for request in ran.status["requests"]}
        return f"{names[champion]} ({champion[:12]})"
    if not ran.tried:
        return "none: no candidate ran at full speed"
    return "none: the race was cut off" if ran.is_cut_off else "none: no candidate that ran is good enough"


def _describe_audit_log(plan: DemoPlan) -> str:
    found = check_audit_log(plan.audit_log, load_trusted_keys(plan.folder / "deployment" / "keys"))
    entries = f"{found.head.entries} entries"
    return f"whole, {entries}, each signed" if found.is_whole else f"DAMAGED: {found.problems[0]}"
