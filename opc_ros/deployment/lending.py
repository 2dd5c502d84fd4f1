"""Who gets a free robot next, under which permit, and when a race for robot time is over."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from opc_ros.deployment.beside import Beside
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.gatekeeper import EvidencePending
from opc_ros.deployment.keys import Signer
from opc_ros.deployment.outcomes import settle_race
from opc_ros.deployment.permit import Permit, Rung, sign_permit
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.revoking import Tell
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.work import RaceResult, Work, choose_work, judge_requests
from opc_ros.errors import OpcError
from opc_ros.ranking.forecast import Forecast

Gate = Callable[[Request, Mapping[str, RealResult], str], Decision]  # request, real results, champion's id or ""
Forecaster = Callable[[Mapping[str, RealResult]], Forecast]  # predicted success of the whole field, given real results

SECOND_NS = 1_000_000_000


class Lending:
    """Leases free robots as rules, gate and race decide; every permit is signed and recorded as an event."""

    def __init__(
        self,
        queue: Queue,
        rules: SchedulerRules,
        signer: Signer,
        gate: Gate,
        forecaster: Forecaster | None,
        now: Callable[[], int],
        make_id: Callable[[], str],
        race_patience_s: float | None = None,
    ) -> None:
        """Races are judged in the background; `race_patience_s` limits how long the caller waits, if set."""
        self._race_patience_s = race_patience_s
        self._races: dict[int, Beside[Any, RaceResult]] = {}  # by priority
        self._queue = queue
        self._rules = rules
        self._signer = signer
        self._gate = gate
        self._forecaster = forecaster
        self._now = now
        self._make_id = make_id

    def settle_races(self) -> None:
        by_priority: dict[int, list[Request]] = defaultdict(list)
        for request in self._queue.requests("queued"):
            if request.rung is Rung.FULL:
                by_priority[request.priority].append(request)
        below = {request.priority for request in self._queue.requests("queued") if request.rung is not Rung.FULL}
        for priority, requests in by_priority.items():
            race = self._judge(requests, priority, are_more_coming=priority in below)
            if race is not None and (race.is_over or not race.standing.is_in_race[: len(requests)].all()):
                with self._queue.change("race", self._now()) as tell:
                    settle_race(self._queue, tell, race, self._rules, self._now())

    def close(self) -> None:
        for beside in self._races.values():
            beside.close()

    def _judge(self, requests: list[Request], priority: int, *, are_more_coming: bool) -> RaceResult | None:
        """How a race stands, by current or slightly older results; None if that is not known yet."""
        tallies = {request.id: self._queue.tally(request) for request in requests}
        real, champion = self._queue.real_results(), self._queue.champion()
        try:
            field = self._forecast(real)
        except EvidencePending:
            return None

        def judge() -> RaceResult:
            return judge_requests(
                requests, tallies, self._rules, real, champion, field, are_more_coming=are_more_coming
            )

        beside = self._races.setdefault(priority, Beside("race"))
        facts = (tuple(tallies.items()), tuple(real.items()), champion, are_more_coming, id(field))
        answer = beside.ask((tuple(requests), facts), judge, self._race_patience_s)
        # When a candidate has left or joined since, it is a different race.
        return answer[1] if answer is not None and answer[0][0] == tuple(requests) else None

    def admit_explorer(self, tell: Tell, request: Request) -> Request:
        """Turn an exploration slot into an ordinary request once its results have convinced the gate.

        While its rate of success would end its attempt to climb, it keeps exploring instead.
        """
        if not request.is_exploration or request.state != "queued":
            return request
        tally, rung = self._queue.tally(request), self._rules.ladder.of(request.rung)
        to_come = max(0, rung.episodes - tally.trials)
        if tally.successes + to_come < rung.successes_to_climb(tally.trials):
            return request
        champion = self._queue.champion()
        try:
            decision = self._gate(request, self._queue.real_results(), champion[0] if champion else "")
        except EvidencePending:
            return request  # tried again with its next result
        if decision.verdict is not Verdict.PASS:
            return request
        reason = "passed the gate after exploration"
        self._queue.set_request(request.id, is_exploration=False, reason=reason)
        body = {"request_id": request.id, "candidate_id": request.candidate_id}
        tell("admitted", body | {"reasons": decision.reasons})
        return self._queue.request(request.id)

    def lend(self, robot: str, session: str) -> bool:
        """Lease a free robot to the next request; a request that the gate no longer passes goes to a person."""
        while True:
            try:
                work, real = self.choose(robot)
                if work is None:
                    return False
                champion = self._queue.champion()
                decision = self._gate(work.request, real, champion[0] if champion else "")
            except EvidencePending:
                return False  # nothing is leased while evidence is still being read
            if _is_allowed(work.request, decision):
                return self._grant(robot, work, session)
            with self._queue.change("gate closed", self._now()) as tell:
                if self._queue.request(work.request.id).state != "queued":
                    return False
                reason = "; ".join(decision.reasons)
                self._queue.set_request(work.request.id, state="waiting", reason=reason, approval="")
                body = {"request_id": work.request.id, "candidate_id": work.request.candidate_id}
                tell("gate_closed", body | {"verdict": decision.verdict, "reasons": decision.reasons})

    def choose(self, robot: str) -> tuple[Work | None, Mapping[str, RealResult]]:
        """Whose turn it is on a robot, before the gate is asked again, and the real results this is based on."""
        requests = self._queue.requests("queued")
        tallies = {request.id: self._queue.tally(request) for request in requests}
        real = self._queue.real_results()
        field = self._forecast(real)
        batches = self._queue.rows("SELECT count(*) FROM leases WHERE rung != ?", Rung.TWIN)[0][0]
        return choose_work(robot, requests, tallies, self._rules, real, batches, field), real

    def _forecast(self, real: Mapping[str, RealResult]) -> Forecast | None:
        """The forecast for the whole field; if its evidence cannot be read, a race has only its own results."""
        try:
            return self._forecaster(real) if self._forecaster else None
        except EvidencePending:
            raise
        except OpcError:
            return None

    def _grant(self, robot: str, work: Work, session: str) -> bool:
        now_ns, request = self._now(), work.request
        permit = Permit(
            permit_id=self._make_id(),
            lease_id=self._make_id(),
            candidate_id=request.candidate_id,
            robot=robot,
            rung=request.rung,
            episodes=work.episodes,
            issued_ns=now_ns,
            expires_ns=now_ns + round(self._rules.lease.length_s * SECOND_NS),
            audit_head=self._queue.audit_log.head(),
            session=session,
        )
        text = to_text(sign_permit(permit, self._signer))
        with self._queue.change("grant", now_ns) as tell:
            if not self._is_still_so(robot, request):
                return False
            self._queue.execute(
                "INSERT INTO leases (id, request_id, candidate_id, robot, rung, episodes, state, permit_id, permit,"
                " granted_ns, expires_ns) VALUES (?, ?, ?, ?, ?, ?, 'granted', ?, ?, ?, ?)",
                *(permit.lease_id, request.id, request.candidate_id, robot, request.rung, work.episodes),
                *(permit.permit_id, text, now_ns, permit.expires_ns),
            )
            self._queue.execute("UPDATE robots SET serving = ? WHERE name = ?", request.candidate_id, robot)
            body = {"permit_id": permit.permit_id, "lease_id": permit.lease_id, "request_id": request.id}
            body |= {"candidate_id": request.candidate_id, "robot": robot, "rung": request.rung, "why": work.why}
            digest = hashlib.sha256(text.encode()).hexdigest()
            body |= {"permit": text, "sha256": digest}
            tell("permit", body | {"episodes": work.episodes, "expires_ns": permit.expires_ns})
        return True

    def _is_still_so(self, robot: str, request: Request) -> bool:
        """Within a change: check that nobody halted the robot or decided on the request while the gate was asked."""
        now = self._queue.request(request.id)
        is_same = (now.state, now.rung, now.approval) == ("queued", request.rung, request.approval)
        return is_same and not self._queue.robots()[robot].halted_by


def _is_allowed(request: Request, decision: Decision) -> bool:
    if not decision.is_signed:
        return False
    if request.approval == "override" or decision.goes_unasked(is_exploration=request.is_exploration):
        return True
    is_approved = request.approval == "approve" and not decision.is_approval_stale
    return is_approved and decision.verdict is Verdict.INCONCLUSIVE
