"""The end of the demo: predicted and true success, and what choosing the champion cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from opc_ros.demo.lab_history import LabHistory
from opc_ros.demo.plan import DemoPlan
from opc_ros.demo.running import Ran
from opc_ros.demo.truth import read_truth
from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.gate import predict_field
from opc_ros.deployment.history import add_results
from opc_ros.deployment.permit import Rung
from opc_ros.documents import canonical_json
from opc_ros.durable import replace_file
from opc_ros.ranking import Ranking

PROOF = "proof.json"


@dataclass(frozen=True, slots=True)
class Proof:
    """How good the choice really was; None if there is no champion or the truth is unknown."""

    seed: int
    champion: str
    champion_success: float | None
    best: str
    best_success: float
    at_full_speed: dict[str, float]  # true success of all candidates that got a permit for full speed


def write_proof(plan: DemoPlan, ranking: Ranking, new: tuple[str, ...], ran: Ran) -> Path | None:
    """Write what `python -m tests.demo_seeds` counts; nothing if true success is unknown."""
    truth = true_success(plan, ranking, new)
    names = {each.candidate_id: each.name for each in ranking.candidates}
    if not truth:
        return None
    champion = ran.status["champion"]
    best = max(truth, key=lambda each: truth[each])
    permits = [entry.body for entry in read_audit_log(plan.audit_log) if entry.kind == "permit"]
    full = {body["candidate_id"] for body in permits if body["rung"] == Rung.FULL}
    proof = Proof(
        seed=plan.seed,
        champion=names.get(champion, ""),
        champion_success=truth.get(champion),
        best=names[best],
        best_success=truth[best],
        at_full_speed={names[each]: truth[each] for each in sorted(full) if each in truth},
    )
    path = plan.folder / PROOF
    replace_file(path, (canonical_json(asdict(proof)) + "\n").encode())
    return path


def true_success(plan: DemoPlan, ranking: Ranking, new: tuple[str, ...]) -> dict[str, float]:
    """By candidate id, for those whose true success has been measured."""
    known = read_truth(plan.truth)
    names = {each.candidate_id: each.name for each in ranking.candidates if each.candidate_id in new}
    return {each: known[name][0] / known[name][1] for each, name in names.items() if name in known}


def describe_proof(plan: DemoPlan, ranking: Ranking, new: tuple[str, ...], history: LabHistory, ran: Ran) -> list[str]:
    """A line for each new candidate, the truly best first, and the regret of the choice in points."""
    names = {each.candidate_id: each.name for each in ranking.candidates if each.candidate_id in new}
    truth = true_success(plan, ranking, new)
    if not truth:
        return ["  nobody has measured the true success of these candidates"]
    real = {request["candidate_id"]: _result(request) for request in ran.status["requests"]}
    before = predict_field(ranking, history.results)
    after = predict_field(ranking, results_of(history, ran))
    width = max(len("candidate"), *(len(names[each]) for each in truth))
    lines = [f"  {'candidate':<{width}}  {'by score alone':>18}  {'on the arms':>11}  {'now expected':>18}    true"]
    for each in sorted(truth, key=lambda each: -truth[each]):
        seen = real.get(each, RealResult(0, 0))
        shown = f"{seen.successes} of {seen.trials}" if seen.trials else "-"
        lines.append(
            f"  {names[each]:<{width}}  {before.expected(each).describe():>18}  {shown:>11}"
            f"  {after.expected(each).describe():>18}  {truth[each]:>6.0%}"
        )
    inside = sum(after.expected(each).contains(rate) for each, rate in truth.items())
    lines.append(f"  {inside} of {len(truth)} true rates lie inside their 95 % interval")
    champion = ran.status["champion"]
    if champion in truth:
        regret = 100 * (max(truth.values()) - truth[champion])
        best = max(truth, key=lambda each: truth[each])
        lines.append(
            f"  champion {names[champion]}, true success {truth[champion]:.0%}: {regret:.0f} points below the best,"
            f" {names[best]}"
        )
    return lines


def results_of(history: LabHistory, ran: Ran) -> dict[str, RealResult]:
    """All results so far, by candidate id."""
    return add_results(history.results, {each["candidate_id"]: _result(each) for each in ran.status["requests"]})


def _result(request: dict[str, object]) -> RealResult:
    real = request["real"]
    assert isinstance(real, dict)
    return RealResult(int(real["successes"]), int(real["trials"]))
