"""Act on signed statements: request robot time, decide on a request, resume, relabel, accept a clock."""

from __future__ import annotations

import dataclasses
import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from opc_ros.deployment.approval_queue import (
    NewRequest,
    accept_clock,
    as_evidence,
    decide_request,
    submit_request,
)
from opc_ros.deployment.counted import Counted, newest_counted_ns
from opc_ros.deployment.decision import Decision
from opc_ros.deployment.evidence import check_evidence
from opc_ros.deployment.gatekeeper import Gatekeeper
from opc_ros.deployment.halting import resume
from opc_ros.deployment.known_again import Identity, find_refused_before
from opc_ros.deployment.line_rate import LONGEST, LineRate
from opc_ros.deployment.people import load_people
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.statement import Kind, Statement, check_statement
from opc_ros.errors import OpcError, StatementRefused
from opc_ros.policies.behaviour_identity import behaviour_id
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.ranking import Ranking
from opc_ros.store import open_store
from opc_ros.workflows.labelling import to_label

KINDS: tuple[Kind, ...] = ("request", "approve", "reject", "override", "resume", "accept_clock", "relabel")
MOST_REFUSALS_A_MINUTE = 20  # logged individually: a stranger must not fill the disk


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a statement; for a request, with the gate's decision."""

    message: str
    request: Request | None = None
    decision: Decision | None = None
    robots: tuple[str, ...] = ()


class StatementHandler:
    """The only place where signed statements change the queue, used by both the node and `opc deploy`."""

    def __init__(
        self,
        queue: Queue,
        keys: Path,
        rules: SchedulerRules,
        gatekeeper: Gatekeeper,
        candidates: Path,
        store: Path,
        now: Callable[[], int],
    ) -> None:
        """`keys` is the folder with people.yaml, read for every statement, so that removing a person works at once."""
        self._queue = queue
        self._keys = keys
        self._rules = rules
        self._gatekeeper = gatekeeper
        self._candidates = candidates
        self._store = store
        self._now = now
        self._refusals = LineRate(MOST_REFUSALS_A_MINUTE, now)
        self._counted: dict[Counted, int] | None = None

    def note_evidence(self) -> None:
        """Remember permanently which ranking and history the gate has used, to reject older ones put back."""
        if self._counted is None:  # not earlier: edited rows are put back before the first tick
            self._counted = {kind: newest_counted_ns(self._queue, kind) for kind in get_args(Counted)}
            self._gatekeeper.require_since(self._counted["ranking_counts"], self._counted["history_counts"])
        seal, history_ns = self._gatekeeper.newest_seal(), self._gatekeeper.newest_history_ns()
        if seal is not None:
            self._note("ranking_counts", seal.signed_ns, {"ranking_id": seal.ranking_id})
        self._note("history_counts", history_ns, {})

    def _note(self, kind: Counted, signed_ns: int, body: dict[str, object]) -> None:
        assert self._counted is not None
        if signed_ns <= self._counted[kind]:
            return
        with self._queue.change("evidence", self._now()) as tell:
            tell(kind, body | {"signed_ns": signed_ns})
        self._counted[kind] = signed_ns

    def act_on(self, envelope: str) -> Outcome:
        """Check a statement and act on it; a refusal becomes a line in the audit log."""
        self._queue.check_rows(self._now())
        self.note_evidence()
        try:
            statement = check_statement(envelope, KINDS, load_people(self._keys), self._now(), self._is_new)
            _check_seen(statement)
        except StatementRefused as error:
            self.note_refusal(str(error))
            raise
        return self._do(statement)

    def explain(self, request_id: str) -> Decision:
        """What the gate finds about a request, for somebody about to decide on it."""
        self._queue.check_rows(self._now())
        self.note_evidence()
        return self.decide(self._queue.request(request_id))

    def decide(self, request: Request, *, patience_s: float | None = None) -> Decision:
        """The gate's verdict on a request now, counting only what people signed; `patience_s` as in Gatekeeper."""
        champion = self._queue.champion()
        decision = self._gatekeeper.decide(
            request.candidate_id,
            self._queue.real_results(),
            champion[0] if champion else "",
            patience_s=patience_s,
        )
        before = find_refused_before(self._queue, request.candidate_id, Identity.from_json(request.identity))
        found = dataclasses.replace(decision, findings=(*decision.findings, *before))
        people, envelopes = load_people(self._keys), self._queue.envelopes(request.id)
        said = check_evidence(request, found, envelopes, people, self._rules)
        return dataclasses.replace(found, findings=(*found.findings, *said))

    def note_refusal(self, reason: str, kind: str = "statement_refused") -> None:
        """Record a refusal in the audit log, up to a limit per minute."""
        if not self._refusals.allows():
            return
        with self._queue.change("statement refused", self._now()) as tell:
            tell(kind, {"reason": reason[:LONGEST], "not_written_before": self._refusals.take_unwritten()})

    def _is_new(self, nonce: str, expires_ns: int) -> bool:
        return not self._queue.has_nonce(nonce)

    def _do(self, statement: Statement) -> Outcome:
        now_ns, body = self._now(), statement.body
        if statement.kind == "request":
            return self._request(statement, now_ns)
        if statement.kind == "resume":
            robots = resume(self._queue, body.robot, statement.person, body.reason, now_ns, statement)
            return Outcome(f"resumed: {', '.join(robots) or 'no robot is known'}", robots=robots)
        if statement.kind == "accept_clock":
            accept_clock(self._queue, statement.person, body.reason, now_ns, statement)
            self._counted = None  # what was signed by the wrong clock must not block newer evidence
            return Outcome("the clock counts from now; permits from before are void")
        if statement.kind == "relabel":
            return self._relabel(statement, now_ns)
        word = statement.kind
        assert word in ("approve", "reject", "override")
        decided = decide_request(
            self._queue,
            body.request_id,
            word,
            statement.person,
            body.reason,
            now_ns,
            statement,
            self._rules.override_people,
        )
        return Outcome(f"request {decided.id} is {decided.state}: {decided.reason}", decided)

    def _relabel(self, statement: Statement, now_ns: int) -> Outcome:
        body = statement.body
        with open_store(self._store) as store:
            revision = store.label(
                body.episode_id, to_label(body, statement.person), note=body.note, signature=statement.envelope
            )
        with self._queue.change("relabel", now_ns) as tell:
            self._queue.keep_statement(statement, "", now_ns)
            told = {"episode_id": body.episode_id, "label": body.label, "person": statement.person}
            tell("relabelled", told | {"revision": revision} | as_evidence(statement))
        return Outcome(f"episode {body.episode_id}: labelled {body.label} by {statement.person}, revision {revision}")

    def _request(self, statement: Statement, now_ns: int) -> Outcome:
        body = statement.body
        candidate = CandidateRegistry(self._candidates).find(body.candidate_id)
        if candidate.id != body.candidate_id:
            raise StatementRefused(f"request: candidate {body.candidate_id[:12]} is now {candidate.id[:12]}: ask again")
        champion = self._queue.champion()
        decision = self._gatekeeper.decide(candidate.id, self._queue.real_results(), champion[0] if champion else "")
        ranking = self._find_ranking()
        scores = {each.candidate_id: each.score for each in ranking.candidates} if ranking else {}
        new = NewRequest(
            candidate_id=candidate.id,
            name=candidate.name,
            path=str(candidate.folder.absolute()),
            score=scores.get(candidate.id, 0.0),
            requested_by=statement.person,
            robots=tuple(body.robots),
            episodes=body.episodes,
            priority=body.priority,
            identity=Identity(behaviour_id(candidate), ranking.answers_of(candidate.id) if ranking else {}),
        )
        filed = submit_request(self._queue, self._rules, new, decision, secrets.token_hex(4), now_ns, statement)
        return Outcome(f"request {filed.id} is {filed.state}: {filed.reason}", filed, decision)

    def _find_ranking(self) -> Ranking | None:
        try:
            return self._gatekeeper.ranking()
        except (OpcError, sqlite3.Error):
            return None


def _check_seen(statement: Statement) -> None:
    """Check that an approval contains what the gate had found about this very request."""
    if statement.kind != "approve":
        return
    seen, asked = statement.body.seen, statement.body.request_id
    if seen is None:
        raise StatementRefused(
            f"approve by {statement.person}: does not say what the gate had found: approve again with this version"
        )
    if seen.request_id != asked:
        raise StatementRefused(
            f"approve by {statement.person}: the screen showed request {seen.request_id}, expected {asked}: "
            "look at this one and approve it"
        )
