"""The scheduler: lends robot time, hears what came of it, and forgets nothing when killed."""

from __future__ import annotations

import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opc_ros.deployment.audit_check import check_audit_log, read_checkpoint, write_checkpoint
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.dsse import Signed, to_text
from opc_ros.deployment.gatekeeper import EvidencePending
from opc_ros.deployment.halting import enlist_robot, obey_left_halts
from opc_ros.deployment.keys import Signer, TrustedKeys
from opc_ros.deployment.losses import note_loss, settle_lease
from opc_ros.deployment.outcomes import follow_up, serve_champion, settle_race
from opc_ros.deployment.permit import Permit, Rung, sign_permit
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Lease, Request, RobotRow
from opc_ros.deployment.revoking import Tell, revocation_list, revoke_permit
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.work import Work, choose_work, judge_requests
from opc_ros.errors import AuditLogDamaged, OpcError
from opc_ros.ranking.forecast import Forecast

Gate = Callable[[Request, Mapping[str, RealResult], str], Decision]  # request, real results, champion's id or ""
Forecaster = Callable[[Mapping[str, RealResult]], Forecast]  # predicted success of the whole field, given real results

SECOND_NS = 1_000_000_000
CLOCK_SKEW_NS = 5 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Orders:
    """What robots are to be told now; telling them twice does no harm."""

    send: tuple[Lease, ...]  # to be run; a robot that knows the lease goes on with it or gives its result
    cancel: tuple[Lease, ...]  # revoked, and not yet confirmed by the robot
    settle: tuple[Lease, ...] = ()  # lost: the robot is back, and is asked what its journal has of them


class Scheduler:
    """One scheduler on one queue; a second one is refused.

    Heartbeats live in memory, all else in the queue. After a restart every robot counts as unheard, so nothing is lent
    before robots report, and leases of before go on.
    """

    def __init__(
        self,
        queue: Queue,
        rules: SchedulerRules,
        signer: Signer,
        gate: Gate,
        now: Callable[[], int],
        make_id: Callable[[], str],
        trusted: TrustedKeys | None = None,
        forecaster: Forecaster | None = None,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`trusted` are the keys that may have signed the audit log; without them, the signer's alone.

        With a `forecaster` races start from what the whole field lets one expect. By `now` permits expire and entries
        are stamped; who is heard and who is lost goes by `steady_s` alone.
        """
        queue.claim(now())
        _refuse_damaged_audit_log(queue, signer, trusted or {signer.key_id: signer.private_key.public_key()}, now())
        self._queue = queue
        self._rules = rules
        self._signer = signer
        self._gate = gate
        self._forecaster = forecaster
        self._now = now
        self._make_id = make_id
        self._steady_s = steady_s
        self._started_s = steady_s()
        self._heard: dict[str, tuple[float, bool]] = {}
        self._granted_s: dict[str, float] = {}  # robot -> when it was last lent
        self._sessions: dict[str, str] = {}  # robot -> the start of its runner that permits are for
        with queue.change("robots", now()):
            for robot in rules.robots:
                enlist_robot(queue, robot)
        obey_left_halts(queue, now())

    def hear(self, robot: str, *, is_ready: bool = True, session: str = "") -> bool:
        """A robot's heartbeat; not ready means that it lives but may not move. Tells whether it has become ready.

        `session` is the start of its runner that permits from now on are for.
        """
        if robot not in self._rules.robots:
            return False
        heard_s, was_ready = self._heard.get(robot, (-math.inf, False))
        was_fresh = self._steady_s() - heard_s <= self._rules.lease.heartbeat_s
        self._heard[robot] = (self._steady_s(), is_ready)
        self._sessions[robot] = session
        return is_ready and not (was_ready and was_fresh)

    def tick(self) -> Orders:
        """Do what time and news ask for: end lost leases, settle races, lend free robots."""
        if self._is_clock_set_back():
            return Orders((), ())
        self._note_robots()
        self._end_lost_leases()
        self._settle_races()
        for name, robot in self._queue.robots().items():
            if name in self._rules.robots and self._is_free(robot):
                self._lend(name)
        leases, lost = self._queue.open_leases(), self._queue.lost_leases()
        online = {name for name, robot in self._queue.robots().items() if robot.state != "offline"}
        return Orders(
            send=tuple(lease for lease in leases if lease.state != "revoking" and lease.robot in online),
            cancel=tuple(lease for lease in leases if lease.state == "revoking"),
            settle=tuple(lease for lease in lost if lease.robot in online),
        )

    def begin(self, lease_id: str) -> None:
        """A robot took the lease."""
        lease = self._queue.lease(lease_id)
        if lease is not None and lease.state == "granted":
            with self._queue.change("begin", self._now()) as tell:
                self._queue.set_lease(lease_id, "running")
                tell("began", {"lease_id": lease_id, "robot": lease.robot})

    def report(self, lease_id: str, episode_id: str, is_success: bool | None, safety_events: int) -> None:
        """One episode has ended; None where it was broken off. Late and repeated reports are welcome."""
        lease = self._queue.lease(lease_id)
        slot = episode_id.removeprefix(f"{lease_id}-")
        if lease is None or not slot.isdecimal() or int(slot) >= lease.episodes:
            with self._queue.change("odd report", self._now()) as tell:
                tell("odd_report", {"lease_id": lease_id, "episode_id": episode_id})
            return
        if self._queue.rows("SELECT 1 FROM results WHERE episode_id = ?", episode_id):
            return
        with self._queue.change("report", self._now()) as tell:
            success = None if is_success is None else int(is_success)
            key = (lease.id, lease.request_id, lease.candidate_id, lease.robot, lease.rung)
            self._queue.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *(episode_id, *key, success, safety_events, self._now()),
            )
            body = {"episode_id": episode_id, "candidate_id": lease.candidate_id, "robot": lease.robot}
            tell("episode", body | {"rung": lease.rung, "success": is_success, "safety_events": safety_events})
            self._count_towards_rest(lease.robot)
            request = self._admit_explorer(tell, self._queue.request(lease.request_id))
            follow_up(self._queue, tell, request, self._rules)

    def end(self, lease_id: str, message: str = "", *, is_refused: bool = False) -> None:
        """A robot is done with a lease, or would not have it; what it did not run is lent again."""
        lease = self._queue.lease(lease_id)
        if lease is not None and lease.state == "lost":
            settle_lease(self._queue, lease, message, self._now())
        if lease is None or lease.state not in ("granted", "running", "revoking"):
            return
        state = "revoked" if lease.state == "revoking" else "refused" if is_refused else "done"
        ran = self._queue.rows("SELECT count(*) FROM results WHERE lease_id = ?", lease_id)[0][0]
        with self._queue.change("end", self._now()) as tell:
            self._queue.set_lease(lease_id, state)
            body = {"lease_id": lease_id, "robot": lease.robot, "candidate_id": lease.candidate_id, "state": state}
            tell("lease_ended", body | {"episodes": lease.episodes, "ran": ran, "message": message})
            if state == "refused" and self._queue.request(lease.request_id).state == "queued":
                reason = f"robot {lease.robot} refused: {message}"
                self._queue.set_request(lease.request_id, state="waiting", reason=reason, approval="")
            if ran < lease.episodes or message:
                # Something keeps the robot from running; asking again at once would spin.
                later_ns = self._now() + round(self._rules.lease.heartbeat_s * SECOND_NS)
                self._rest(lease.robot, later_ns)
            serve_champion(self._queue, lease.robot)

    def refusal(self, robot: str, detail: str) -> None:
        """A robot refused something nobody here asked for: an attack, or a mistake."""
        with self._queue.change("refusal", self._now()) as tell:
            tell("robot_refused", {"robot": robot, "detail": detail})

    def revocations(self) -> Signed:
        """The signed list every robot must hear."""
        return revocation_list(self._queue, self._signer, self._now())

    def _is_clock_set_back(self) -> bool:
        behind_ns = self._queue.fact("latest_ns") - self._now()
        is_set_back = behind_ns > CLOCK_SKEW_NS
        if is_set_back != bool(self._queue.fact("is_clock_set_back")):
            with self._queue.change("clock", self._now()) as tell:
                self._queue.set_fact("is_clock_set_back", int(is_set_back))
                tell("clock_set_back" if is_set_back else "clock_right", {"behind_s": max(0, behind_ns // SECOND_NS)})
        return is_set_back

    def _note_robots(self) -> None:
        now_ns = self._now()
        for name, robot in self._queue.robots().items():
            heard_s, is_ready = self._heard.get(name, (-math.inf, False))
            is_fresh = self._steady_s() - heard_s <= self._rules.lease.heartbeat_s
            state = "offline" if not is_fresh else "ready" if is_ready else "not ready"
            if state != robot.state:
                with self._queue.change("robot", now_ns) as tell:
                    self._queue.execute("UPDATE robots SET state = ?, since_ns = ? WHERE name = ?", state, now_ns, name)
                    tell("robot", {"robot": name, "state": state})

    def _end_lost_leases(self) -> None:
        now_ns = self._now()
        lease_rules = self._rules.lease
        patience_s = lease_rules.heartbeat_s + lease_rules.grace_s
        for lease in self._queue.open_leases():
            heard_s = self._heard.get(lease.robot, (-math.inf, False))[0]
            silence_s = self._steady_s() - max(heard_s, self._granted_s.get(lease.robot, 0.0), self._started_s)
            is_over = now_ns > lease.expires_ns + round(lease_rules.grace_s * SECOND_NS)
            if silence_s <= patience_s and not is_over:
                continue
            reason = "its time is over" if is_over else f"unheard for {silence_s:.0f} s"
            with self._queue.change("lost", now_ns) as tell:
                self._queue.set_lease(lease.id, "lost")
                revoke_permit(self._queue, tell, lease, reason)
                tell("lease_lost", {"lease_id": lease.id, "robot": lease.robot, "reason": reason})
                note_loss(self._queue, tell, lease, self._rules)
                serve_champion(self._queue, lease.robot)

    def _settle_races(self) -> None:
        by_priority: dict[int, list[Request]] = defaultdict(list)
        for request in self._queue.requests("queued"):
            if request.rung is Rung.FULL:
                by_priority[request.priority].append(request)
        below = {request.priority for request in self._queue.requests("queued") if request.rung is not Rung.FULL}
        for priority, requests in by_priority.items():
            tallies = {request.id: self._queue.tally(request) for request in requests}
            real, champion = self._queue.real_results(), self._queue.champion()
            race = judge_requests(
                requests,
                tallies,
                self._rules,
                real,
                champion,
                self._forecast(real),
                are_more_coming=priority in below,
            )
            if race.is_over or not race.standing.is_in_race[: len(requests)].all():
                with self._queue.change("race", self._now()) as tell:
                    settle_race(self._queue, tell, race, self._rules, self._now())

    def _forecast(self, real: Mapping[str, RealResult]) -> Forecast | None:
        """What the field lets one expect; evidence that cannot be read leaves a race to its own results."""
        try:
            return self._forecaster(real) if self._forecaster else None
        except OpcError:
            return None

    def _admit_explorer(self, tell: Tell, request: Request) -> Request:
        """An exploration slot whose results have convinced the gate goes on as any other request."""
        if not request.is_exploration or request.state != "queued":
            return request
        champion = self._queue.champion()
        try:
            decision = self._gate(request, self._queue.real_results(), champion[0] if champion else "")
        except EvidencePending:
            return request  # asked again with its next result
        if decision.verdict is not Verdict.PASS:
            return request
        reason = "passed the gate after exploration"
        self._queue.set_request(request.id, is_exploration=False, reason=reason)
        body = {"request_id": request.id, "candidate_id": request.candidate_id}
        tell("admitted", body | {"reasons": decision.reasons})
        return self._queue.request(request.id)

    def _is_free(self, robot: RobotRow) -> bool:
        is_able = robot.state == "ready" and not robot.halted_by and robot.rest_until_ns <= self._now()
        return is_able and all(lease.robot != robot.name for lease in self._queue.open_leases())

    def _lend(self, robot: str) -> None:
        """Lend a free robot to whoever's turn it is; a gate that has closed since sends the request to a person."""
        while True:
            requests = self._queue.requests("queued")
            tallies = {request.id: self._queue.tally(request) for request in requests}
            real = self._queue.real_results()
            batches = self._queue.rows("SELECT count(*) FROM leases WHERE rung != ?", Rung.TWIN)[0][0]
            work = choose_work(robot, requests, tallies, self._rules, real, batches, self._forecast(real))
            if work is None:
                return
            champion = self._queue.champion()
            try:
                decision = self._gate(work.request, real, champion[0] if champion else "")
            except EvidencePending:
                return  # nothing is lent on evidence that is still being read
            if _is_allowed(work.request, decision):
                self._grant(robot, work)
                return
            with self._queue.change("gate closed", self._now()) as tell:
                reason = "; ".join(decision.reasons)
                self._queue.set_request(work.request.id, state="waiting", reason=reason, approval="")
                body = {"request_id": work.request.id, "candidate_id": work.request.candidate_id}
                tell("gate_closed", body | {"verdict": decision.verdict, "reasons": decision.reasons})

    def _grant(self, robot: str, work: Work) -> None:
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
            session=self._sessions.get(robot, ""),
        )
        self._granted_s[robot] = self._steady_s()
        text = to_text(sign_permit(permit, self._signer))
        with self._queue.change("grant", now_ns) as tell:
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
            tell("permit", body | {"episodes": work.episodes, "expires_ns": permit.expires_ns, "sha256": digest})

    def _count_towards_rest(self, robot: str) -> None:
        self._queue.execute("UPDATE robots SET since_rest = since_rest + 1 WHERE name = ?", robot)
        if self._queue.robots()[robot].since_rest >= self._rules.rest.after_episodes:
            self._queue.execute("UPDATE robots SET since_rest = 0 WHERE name = ?", robot)
            self._rest(robot, self._now() + round(self._rules.rest.pause_s * SECOND_NS))

    def _rest(self, robot: str, until_ns: int) -> None:
        self._queue.execute("UPDATE robots SET rest_until_ns = max(rest_until_ns, ?) WHERE name = ?", until_ns, robot)


def _refuse_damaged_audit_log(queue: Queue, signer: Signer, trusted: TrustedKeys, now_ns: int) -> None:
    path = queue.audit_log.path
    report = check_audit_log(path, trusted, since=read_checkpoint(path, trusted))
    if report.is_whole:
        write_checkpoint(path, report, signer)
        return
    with queue.change("audit log damaged", now_ns) as tell:
        tell("ledger_damaged", {"problems": report.problems[:5]})
    raise AuditLogDamaged(
        f"{queue.audit_log.path}: {report.problems[0]}; nothing is lent until it is restored from a copy"
    )


def _is_allowed(request: Request, decision: Decision) -> bool:
    if not decision.is_signed:
        return False
    if decision.verdict is Verdict.PASS or request.approval == "override":
        return True
    if decision.verdict is Verdict.INCONCLUSIVE and request.approval == "approve":
        return True
    # Results may cast doubt on a candidate that once passed; the race, not a person, finds out.
    is_in_doubt = decision.verdict is Verdict.INCONCLUSIVE or request.is_exploration
    return is_in_doubt and decision.is_explorable
