"""The scheduler: leases robot time, collects results, and forgets nothing when killed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.deployment.audit_check import check_audit_log, read_checkpoint, write_checkpoint
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.gatekeeper import EvidencePending
from opc_ros.deployment.halting import enlist_robot, obey_left_halts
from opc_ros.deployment.keys import Signer, TrustedKeys
from opc_ros.deployment.lending import SECOND_NS, Forecaster, Gate, Lending
from opc_ros.deployment.line_rate import LONGEST, LineRate
from opc_ros.deployment.losses import note_loss, settle_lease
from opc_ros.deployment.outcomes import follow_up, serve_champion
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Lease, RobotRow
from opc_ros.deployment.recordings import Look, PendingRecordings, classify, look_nowhere, note_rule
from opc_ros.deployment.revoking import Tell, revocation_list, revoke_permit
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.work import Work
from opc_ros.errors import AuditLogDamaged

CLOCK_SKEW_NS = 5 * SECOND_NS
MOST_REFUSALS_A_MINUTE = 60
MOST_CHANGES_A_MINUTE = 120  # changes of robots' states that are recorded


@dataclass(frozen=True, slots=True)
class Orders:
    """What robots have to be told now; repeating it does no harm."""

    send: tuple[Lease, ...]  # to run; a robot that knows the lease continues it or returns its result
    cancel: tuple[Lease, ...]  # revoked, but not yet confirmed by the robot
    settle: tuple[Lease, ...] = ()  # lost, but the robot is back: it is asked what its journal has of them


class Scheduler:
    """The only scheduler of its queue; a second one is refused.

    Heartbeats live in memory, everything else in the queue. After a restart no robot has been heard from, so none is
    leased before it reports, and earlier leases continue.
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
        look: Look = look_nowhere,
        race_patience_s: float | None = None,
        lend_budget_s: float = math.inf,
    ) -> None:
        """`trusted` are the keys that may have signed the audit log; by default only the signer's.

        With a `forecaster`, races start from the forecast for the whole field. `now` is for permits' expiry and
        timestamps; who is online and who is lost depends only on `steady_s`. `look` finds recordings that no robot has
        confirmed. A tick waits at most `race_patience_s` for the state of a race (None: until it is known), and stops
        leasing further robots after `lend_budget_s`.
        """
        queue.claim(now())
        _refuse_damaged_audit_log(queue, signer, trusted or {signer.key_id: signer.private_key.public_key()}, now())
        queue.guard_rows(now())
        self._queue = queue
        self._rules = rules
        self._signer = signer
        self._lending = Lending(queue, rules, signer, gate, forecaster, now, make_id, race_patience_s)
        self._recordings = PendingRecordings(queue, rules.recording, look, steady_s)
        self._now = now
        self._steady_s = steady_s
        self._lend_budget_s = lend_budget_s
        self._started_s = steady_s()
        self._heard: dict[str, tuple[float, bool]] = {}
        self._granted_s: dict[str, float] = {}  # robot -> when it was last leased
        self._refusals = LineRate(MOST_REFUSALS_A_MINUTE, now)
        self._changes = LineRate(MOST_CHANGES_A_MINUTE, now)
        self._sessions: dict[str, str] = {}  # robot -> the start of its runner that new permits are for
        with queue.change("robots", now()):
            for robot in rules.robots:
                enlist_robot(queue, robot)
        note_rule(queue, rules.recording, now())
        obey_left_halts(queue, now())

    def close(self) -> None:
        """Stop background work; the queue stays open, for the caller to close."""
        self._lending.close()

    def hear(self, robot: str, *, is_ready: bool = True, session: str = "") -> bool:
        """Take a robot's heartbeat, and return whether the robot has just become ready.

        A robot that is not ready is alive but may not move. `session` is the start of its runner that new permits are
        for.
        """
        if robot not in self._rules.robots:
            return False
        heard_s, was_ready = self._heard.get(robot, (-math.inf, False))
        was_fresh = self._steady_s() - heard_s <= self._rules.lease.heartbeat_s
        self._heard[robot] = (self._steady_s(), is_ready)
        self._sessions[robot] = session
        return is_ready and not (was_ready and was_fresh)

    def tick(self) -> Orders:
        """Do whatever is due: end lost leases, settle races, lease free robots."""
        self._queue.check_rows(self._now())
        if self._is_clock_set_back():
            return Orders((), ())
        self._note_robots()
        self._end_lost_leases()
        self._settle_recordings()
        self._lending.settle_races()
        self._lend_free_robots()
        leases, lost = self._queue.open_leases(), self._queue.lost_leases()
        online = {name for name, robot in self._queue.robots().items() if robot.state != "offline"}
        return Orders(
            send=tuple(lease for lease in leases if lease.state != "revoking" and lease.robot in online),
            cancel=tuple(lease for lease in leases if lease.state == "revoking"),
            settle=tuple(lease for lease in lost if lease.robot in online),
        )

    def foresee(self) -> dict[str, Work]:
        """What each robot would be leased for if it were free now and the gate still agreed."""
        found = {}
        for robot in self._rules.robots:
            try:
                work, _ = self._lending.choose(robot)
            except EvidencePending:
                continue
            if work is not None:
                found[robot] = work
        return found

    def begin(self, lease_id: str) -> None:
        """Note that a robot has taken the lease."""
        lease = self._queue.lease(lease_id)
        if lease is not None and lease.state == "granted":
            with self._queue.change("begin", self._now()) as tell:
                self._queue.set_lease(lease_id, "running")
                tell("began", {"lease_id": lease_id, "robot": lease.robot})

    def report(
        self, lease_id: str, episode_id: str, is_success: bool | None, safety_events: int, recording: str = ""
    ) -> None:
        """Take the result of one episode, None if it was broken off; late and repeated reports are fine.

        `recording` is the digest of its committed file, if the robot knows it.
        """
        lease = self._queue.lease(lease_id)
        slot = episode_id.removeprefix(f"{lease_id}-")
        if lease is None or not slot.isdecimal() or int(slot) >= lease.episodes:
            with self._queue.change("odd report", self._now()) as tell:
                tell("odd_report", {"lease_id": lease_id, "episode_id": episode_id})
            return
        if self._queue.rows("SELECT 1 FROM results WHERE episode_id = ?", episode_id):
            return
        now_ns = self._now()
        with self._queue.change("report", now_ns) as tell:
            success = None if is_success is None else int(is_success)
            state = classify(self._rules.recording, is_success, recording)
            key = (lease.id, lease.request_id, lease.candidate_id, lease.robot, lease.rung)
            self._queue.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *(episode_id, *key, success, safety_events, now_ns, state),
            )
            body = {"episode_id": episode_id, "candidate_id": lease.candidate_id, "robot": lease.robot}
            body |= {"lease_id": lease.id, "rung": lease.rung, "recording": state, "sha256": recording}
            tell("episode", body | {"success": is_success, "safety_events": safety_events})
            self._count_towards_rest(lease.robot)
            self._follow(tell, lease.request_id)

    def keep_result(self, lease: Lease, envelope: str) -> None:
        """Put the robot's signed result into the audit log before it counts, so that everybody can check the count."""
        with self._queue.change("robot result", self._now()) as tell:
            body = {"lease_id": lease.id, "request_id": lease.request_id, "robot": lease.robot}
            tell("robot_result", body | {"result": json.loads(envelope)})

    def end(self, lease_id: str, message: str = "", *, is_refused: bool = False) -> None:
        """Close a lease that a robot has finished or refused; episodes that it did not run are leased again."""
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
                # Something keeps the robot from running; leasing it again at once would spin.
                later_ns = self._now() + round(self._rules.lease.heartbeat_s * SECOND_NS)
                self._rest(lease.robot, later_ns)
            serve_champion(self._queue, lease.robot)

    def refusal(self, robot: str, detail: str) -> None:
        """Note that a robot refused a request that this scheduler never made: an attack, or a mistake."""
        if not self._refusals.allows():
            return
        with self._queue.change("refusal", self._now()) as tell:
            body = {"robot": robot, "detail": detail[:LONGEST]}
            tell("robot_refused", body | {"not_written_before": self._refusals.take_unwritten()})

    def revocations(self) -> Signed:
        """The signed list that every robot must receive."""
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
                    # A robot, real or faked, that comes and goes all the time must not fill the disk.
                    if self._changes.allows():
                        told = {"robot": name, "state": state}
                        tell("robot", told | {"not_written_before": self._changes.take_unwritten()})

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
            reason = "its time is over" if is_over else f"not heard from for {silence_s:.0f} s"
            with self._queue.change("lost", now_ns) as tell:
                self._queue.set_lease(lease.id, "lost")
                revoke_permit(self._queue, tell, lease, reason)
                tell("lease_lost", {"lease_id": lease.id, "robot": lease.robot, "reason": reason})
                note_loss(self._queue, tell, lease, self._rules)
                serve_champion(self._queue, lease.robot)

    def _settle_recordings(self) -> None:
        """Count results whose recording has turned up, and mark as broken those whose recording never did."""
        for pending, state in self._recordings.settle():
            with self._queue.change("recording", self._now()) as tell:
                self._queue.execute("UPDATE results SET recording = ? WHERE episode_id = ?", state, pending.episode_id)
                tell("recording", {"episode_id": pending.episode_id, "robot": pending.robot, "recording": state})
                self._follow(tell, pending.request_id)

    def _follow(self, tell: Tell, request_id: str) -> None:
        request = self._lending.admit_explorer(tell, self._queue.request(request_id))
        follow_up(self._queue, tell, request, self._rules)

    def _lend_free_robots(self) -> None:
        """Lease the robot that has waited longest first; those that exceed a tick's budget wait for the next."""
        began_s = time.perf_counter()
        robots = self._queue.robots()
        for name in sorted(robots, key=lambda name: self._granted_s.get(name, -math.inf)):
            if name in self._rules.robots and self._is_free(robots[name]):
                granted_s = self._steady_s()
                if self._lending.lend(name, self._sessions.get(name, "")):
                    self._granted_s[name] = granted_s
                if time.perf_counter() - began_s > self._lend_budget_s:
                    return

    def _is_free(self, robot: RobotRow) -> bool:
        is_able = robot.state == "ready" and not robot.halted_by and robot.rest_until_ns <= self._now()
        return is_able and all(lease.robot != robot.name for lease in self._queue.open_leases())

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
        tell("audit_log_damaged", {"problems": report.problems[:5]})
    raise AuditLogDamaged(
        f"{queue.audit_log.path}: {report.problems[0]}; no robot is leased until it is restored from a copy"
    )
