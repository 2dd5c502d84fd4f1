"""What people really said of a request, from their signatures; what the queue's rows say is not believed."""

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
    """What else stands against a request, given what the gate found.

    A failure where a row of the queue says what nobody with the role has signed; a doubt where the gate finds worse
    than whoever approved was shown.
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
            continue  # forged, or by somebody who is not trusted any more
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
        return (
            f"no signed request of {request.requested_by} fits what the queue says; ask again with `opc deploy request`"
        )
    if not request.approval:
        return ""
    said = {each.person for each in statements if each.kind == request.approval and each.body.request_id == request.id}
    wanted = rules.override_people if request.approval == "override" else 1
    if request.approved_by not in said or len(said) < wanted:
        return f"the queue says {request.approval} by {request.approved_by}, but {wanted} signed for it are not there"
    return ""


def _why_stale(request: Request, found: Decision, statements: list[Statement], rules: SchedulerRules) -> str:
    """Which rule stands worse than on the screen of the last approval; empty where that covers all there is."""
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
        return f"{last.person} approved in a version that did not say what the gate had found: approve again"
    worse = seen.find_worse(found.findings)
    return "; ".join(
        f"rule {each.rule} was {seen.verdict_of(each.rule)} when {last.person} approved and is {each.verdict} now"
        for each in worse
    )
