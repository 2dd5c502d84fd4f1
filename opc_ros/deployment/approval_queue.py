"""What people ask of the scheduler: requests, approvals and overrides."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from opc_ros.deployment.decision import Decision, Verdict
from opc_ros.deployment.known_again import Identity, find_refused_before
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.revoking import revoke_leases
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.statement import Statement
from opc_ros.errors import DeploymentError

Word = Literal["approve", "reject", "override"]


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request for robot time: which candidate, who asks, and on which robots."""

    candidate_id: str
    name: str
    path: str  # the candidate's folder, as the robots see it
    score: float
    requested_by: str
    robots: tuple[str, ...] = ()  # empty: any
    episodes: int = 0  # at full speed; 0: as many as the rules allow
    priority: int = 0
    identity: Identity = field(default_factory=Identity)


def submit_request(
    queue: Queue,
    rules: SchedulerRules,
    asked: NewRequest,
    decision: Decision,
    request_id: str,
    now_ns: int,
    statement: Statement | None = None,
) -> Request:
    """File a request with the gate's verdict: queued, left to a person, or refused."""
    _check_new(queue, rules, asked)
    before = find_refused_before(queue, asked.candidate_id, asked.identity)
    decision = dataclasses.replace(decision, findings=(*decision.findings, *before))
    reasons = decision.reasons
    is_exploration = decision.is_explorable and rules.exploration_episodes > 0
    if decision.verdict is Verdict.FAIL and not is_exploration:
        state = "refused"
    else:
        is_open = decision.verdict is Verdict.INCONCLUSIVE and not is_exploration
        is_asked = is_exploration and rules.asks_before_exploring(rules.ladder.first())
        state = "waiting" if is_open or is_asked else "queued"
    with queue.change("request", now_ns) as tell:
        _keep(queue, statement, request_id, now_ns)
        queue.execute(
            "INSERT INTO requests (id, candidate_id, name, path, score, ranking_id, robots, episodes, priority,"
            " requested_by, created_ns, state, rung, is_exploration, reason, identity)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            request_id,
            asked.candidate_id,
            asked.name,
            asked.path,
            asked.score,
            decision.ranking_id,
            json.dumps(asked.robots),
            _terms(asked, rules)["episodes"],
            asked.priority,
            asked.requested_by,
            now_ns,
            state,
            rules.ladder.first(),
            is_exploration,
            "; ".join(reasons) if state != "queued" or is_exploration else "passed the gate",
            asked.identity.to_json(),
        )
        body = {"request_id": request_id, "candidate_id": asked.candidate_id, "requested_by": asked.requested_by}
        tell(
            "request",
            body
            | {
                "verdict": decision.verdict,
                "reasons": reasons,
                "ranking_id": decision.ranking_id,
                "state": state,
                "is_exploration": is_exploration,
                "rung": rules.ladder.first(),
                "identity": asdict(asked.identity),
                "terms": _terms(asked, rules),
            }
            | as_evidence(statement),
        )
    return queue.request(request_id)


def _terms(asked: NewRequest, rules: SchedulerRules) -> dict[str, Any]:
    """The fields that restoring a queue from the audit log needs beyond the rest of the event."""
    episodes = min(asked.episodes or rules.request_episodes, rules.request_episodes)
    terms = {"name": asked.name, "path": asked.path, "score": asked.score, "robots": list(asked.robots)}
    return terms | {"episodes": episodes, "priority": asked.priority}


def decide_request(
    queue: Queue,
    request_id: str,
    word: Word,
    person: str,
    reason: str,
    now_ns: int,
    statement: Statement | None = None,
    override_people: int = 1,
) -> Request:
    """Apply a person's decision: approve or reject a waiting request, override a refusal, or withdraw a queued request.

    Where the rules require several people for an override, the request stays in "waiting" until the last of them signs.
    """
    check_person(person)
    if word != "approve" and not reason.strip():
        raise DeploymentError(f"{word} of request {request_id}: give a reason")
    request = queue.request(request_id)
    allowed = {"approve": ("waiting",), "reject": ("waiting", "queued"), "override": ("waiting", "refused")}[word]
    if request.state not in allowed:
        raise DeploymentError(f"request {request_id}: is {request.state}; {word} is for {' or '.join(allowed)} ones")
    with queue.change(word, now_ns) as tell:
        _keep(queue, statement, request_id, now_ns)
        said_by = _who_said(queue, request_id, word) | {person}
        if word == "override" and len(said_by) < override_people:
            waits = f"override by {', '.join(sorted(said_by))}: {reason}; the rules ask for {override_people} people"
            queue.set_request(request_id, state="waiting", reason=waits)
        elif word == "reject":
            queue.set_request(request_id, state="rejected", reason=f"rejected by {person}: {reason}")
            revoke_leases(queue, tell, f"request rejected by {person}", request_id=request_id)
        else:
            said = f"{word} by {person}" + (f": {reason}" if reason else "")
            # An approved exploration stays an exploration; an override lets the candidate race.
            is_exploration = request.is_exploration and word == "approve"
            queue.set_request(
                request_id,
                state="queued",
                approval=word,
                approved_by=person,
                reason=said,
                is_exploration=is_exploration,
            )
        body = {"request_id": request_id, "candidate_id": request.candidate_id, "person": person, "reason": reason}
        tell(word, body | {"gate_said": request.reason} | as_evidence(statement))
    return queue.request(request_id)


def check_person(person: str) -> None:
    """Whoever decides has a name."""
    if not person.strip():
        raise DeploymentError("who decides this? Give a name with --person")


def as_evidence(statement: Statement | None) -> dict[str, Any]:
    """The signed statement itself, which the audit log keeps beside the person's name."""
    return {"statement": json.loads(statement.envelope)} if statement is not None else {}


def accept_clock(queue: Queue, person: str, reason: str, now_ns: int, statement: Statement | None = None) -> None:
    """Continue from the present time after a person has corrected a clock that ran ahead; revokes every open permit."""
    check_person(person)
    if not reason.strip():
        raise DeploymentError("accept-clock: give a reason")
    with queue.change("accept clock", now_ns) as tell:
        _keep(queue, statement, "", now_ns)
        revoke_leases(queue, tell, "the clock was corrected")
        queue.set_fact("latest_ns", now_ns)
        tell("clock_accepted", {"person": person, "reason": reason} | as_evidence(statement))


def _keep(queue: Queue, statement: Statement | None, request_id: str, now_ns: int) -> None:
    if statement is not None:
        queue.keep_statement(statement, request_id, now_ns)


def _who_said(queue: Queue, request_id: str, word: Word) -> set[str]:
    rows = queue.rows("SELECT person FROM statements WHERE request_id = ? AND kind = ?", request_id, word)
    return {str(row[0]) for row in rows}


def _robots(rules: SchedulerRules, robot: str) -> Sequence[str]:
    if robot and robot not in rules.robots:
        raise DeploymentError(f"robot {robot!r}: not in the scheduler's rules, which have {', '.join(rules.robots)}")
    return [robot] if robot else list(rules.robots)


def _check_new(queue: Queue, rules: SchedulerRules, asked: NewRequest) -> None:
    check_person(asked.requested_by)
    for robot in asked.robots:
        _robots(rules, robot)
    if asked.episodes < 0:
        raise DeploymentError(f"request: {asked.episodes} episodes, expected at least 0")
    for request in queue.requests("waiting", "queued"):
        if request.candidate_id == asked.candidate_id:
            raise DeploymentError(
                f"candidate {asked.name}: request {request.id} for it is {request.state} already; "
                f"wait for it, or `opc deploy reject {request.id}`"
            )
