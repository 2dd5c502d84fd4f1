"""What people signed about a request, as opposed to what the queue's rows claim."""

from __future__ import annotations

from collections.abc import Iterable

from opc_ros.deployment.decision import STALE_RULE, UNSIGNED_RULE, Decision, Finding, Verdict
from opc_ros.deployment.people import People
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.seen import Seen
from opc_ros.deployment.statement import Statement, read_statement
from opc_ros.errors import DeploymentError


def check_evidence(
    request: Request, found: Decision, envelopes: Iterable[str], people: People, rules: SchedulerRules
) -> tuple[Finding, ...]:
    """Findings against a request, besides those of the gate.

    A failure where the queue claims something that nobody with the role has signed; a doubt where the gate now finds
    something worse than the approver was shown.
    """
    statements = _read(envelopes, people)
    sentence = _why_unsigned(request, statements, rules)
    if sentence:
        return (Finding(UNSIGNED_RULE, Verdict.FAIL, sentence),)
    sentence = _why_stale(request, found, statements, rules)
    return (Finding(STALE_RULE, found.verdict, sentence),) if sentence else ()


def _read(envelopes: Iterable[str], people: People) -> list[Statement]:
    statements = []
    for envelope in envelopes:
        try:
            statements.append(read_statement(envelope, people))
        except DeploymentError:
            continue  # forged, or signed by somebody who is no longer trusted
    return statements


def _why_unsigned(request: Request, statements: list[Statement], rules: SchedulerRules) -> str:
    asked = [each for each in statements if each.kind == "request" and each.person == request.requested_by]
    most = rules.request_episodes
    if not any(
        each.body.candidate_id == request.candidate_id
        and tuple(each.body.robots) == request.robots
        and min(each.body.episodes or most, most) >= request.episodes
        and each.body.priority == request.priority
        for each in asked
    ):
        return f"no signed request by {request.requested_by} matches the queue; ask again with `opc deploy request`"
    if not request.approval:
        return ""
    said = {each.person for each in statements if each.kind == request.approval and each.body.request_id == request.id}
    wanted = rules.override_people if request.approval == "override" else 1
    if request.approved_by not in said or len(said) < wanted:
        return f"the queue says {request.approval} by {request.approved_by}, but {wanted} signed for that are missing"
    return ""


def _why_stale(request: Request, found: Decision, statements: list[Statement], rules: SchedulerRules) -> str:
    """The rules that have become worse since the last approval; empty where the approval still covers everything."""
    is_asked_anyway = request.is_exploration and rules.asks_before_exploring(request.rung)
    if request.approval != "approve" or found.verdict is Verdict.PASS:
        return ""
    if found.goes_unasked(is_exploration=request.is_exploration) and not is_asked_anyway:
        return ""
    given = [
        each
        for each in statements
        if each.kind == "approve" and each.person == request.approved_by and each.body.request_id == request.id
    ]
    last = max(given, key=lambda each: each.issued_ns)
    seen: Seen | None = last.body.seen
    if seen is None or seen.request_id != request.id:
        return f"{last.person} approved with a version that did not show what the gate had found: approve again"
    worse = seen.find_worse(found.findings)
    return "; ".join(
        f"rule {each.rule} was {seen.verdict_of(each.rule)} when {last.person} approved and is {each.verdict} now"
        for each in worse
    )
