"""What people really said of a request, from their signatures; what the queue's rows say is not believed."""

from __future__ import annotations

from collections.abc import Iterable

from opc_ros.deployment.decision import UNSIGNED_RULE, Finding, Verdict
from opc_ros.deployment.people import People
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.statement import Statement, read_statement
from opc_ros.errors import DeploymentError


def check_evidence(
    request: Request, envelopes: Iterable[str], people: People, rules: SchedulerRules
) -> tuple[Finding, ...]:
    """A failure where a row of the queue says what nobody with the role has signed."""
    sentence = _why_unsigned(request, _read(envelopes, people), rules)
    return (Finding(UNSIGNED_RULE, Verdict.FAIL, sentence),) if sentence else ()


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
