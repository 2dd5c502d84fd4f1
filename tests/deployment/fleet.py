"""Robots that run leases as real ones do, checked by real permits, with a log of every episode that moved."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.deployment.approval_queue import NewRequest, submit_request
from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.audit_log import AuditLog, Entry
from opc_ros.deployment.decision import Decision, Finding, RealResult, Verdict
from opc_ros.deployment.dsse import from_text
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import create_keys, load_signer, load_trusted_keys
from opc_ros.deployment.permit import Permit, Rung
from opc_ros.deployment.queue import Queue, ignore_moment
from opc_ros.deployment.queue_rows import Lease, Request
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.rules import (
    Ladder,
    LeaseRules,
    RecordingRules,
    RestRules,
    RobotRules,
    RungRules,
    SchedulerRules,
)
from opc_ros.deployment.scheduler import Scheduler
from opc_ros.deployment.verifier import PermitVerifier
from opc_ros.errors import PermitRefused
from tests.deployment.clock import Clock


def make_rules(**changes: object) -> SchedulerRules:
    """A short ladder with two rungs below full speed, one twin and one arm."""
    values: dict[str, object] = {
        "robots": {"twin": RobotRules(("twin",)), "arm1": RobotRules(("reduced", "full"))},
        "ladder": Ladder(RungRules(2, 0.0, 0, 2), RungRules(2, 0.0, 0, 2), RungRules(4, 0.0, 1, 3)),
        "lease": LeaseRules(heartbeat_s=5.0, grace_s=10.0, length_s=600.0),
        "rest": RestRules(after_episodes=1000, pause_s=60.0),
        "race": RaceRules(batch_episodes=2, budget_episodes=100, explore_every=0),
        "request_episodes": 4,
        "exploration_episodes": 2,
        "recording": RecordingRules(required=False),
    }
    return SchedulerRules(**(values | changes))  # type: ignore[arg-type]


def make_shortest_rules() -> SchedulerRules:
    """One episode on each rung below full speed, then one lease of two."""
    ladder = Ladder(RungRules(1, 0.0, 0, 2), RungRules(1, 0.0, 0, 2), RungRules(2, 0.0, 1, 3))
    return make_rules(ladder=ladder, request_episodes=2)


def say(verdict: Verdict, *rules: str, candidate_id: str = "") -> Decision:
    """A decision in which these rules have this verdict."""
    findings = tuple(Finding(rule, verdict, f"{rule} says {verdict}") for rule in rules or ("snapshot",))
    return Decision(candidate_id, "r1", findings)


class FakeRobot:
    """One arm: takes a lease only with a good permit, and keeps its journal through everything."""

    def __init__(self, name: str, rungs: tuple[str, ...], folder: Path, keys: Path, clock: Clock) -> None:
        self.name = name
        self.journal = RobotJournal(folder / name / "journal.db", clock())
        self.verifier = PermitVerifier(
            name,
            frozenset(Rung(rung) for rung in rungs),
            lambda: load_trusted_keys(keys),
            self.journal,
            AuditLog(folder / name / "audit.jsonl"),
            clock,
        )
        self.running: Permit | None = None
        self.is_reachable = True
        self.has_power = True
        self.executed: list[str] = []

    def take(self, lease: Lease) -> str:
        """Begin a lease, or return what prevents it: "running", "busy" or "over"."""
        if self.running is not None:
            return "running" if self.running.lease_id == lease.id else "busy"
        if len(self.journal.episodes_of(lease.id)) == lease.episodes:
            return "over"
        self.running = self.verifier.check(from_text(lease.permit), lease.candidate_id, lease.rung)
        return "running"

    def run_one(self, rate: float, rng: np.random.Generator) -> None:
        assert self.running is not None
        slot = self.verifier.begin_episode(self.running)
        self.executed.append(slot.episode_id)
        outcome = "success" if rng.random() < rate else "failure"
        self.verifier.end_episode(self.running, slot, outcome, 0)
        if self.verifier.episodes_left(self.running) == 0:
            self.running = None


class Fleet:
    """A scheduler that can be killed, and robots that cannot."""

    def __init__(self, folder: Path, rules: SchedulerRules, rates: Mapping[str, float] | None = None) -> None:
        self.folder, self.rules = folder, rules
        self.rates = rates or {}
        self.clock = Clock()
        self.keys = folder / "keys"
        if not self.keys.is_dir():
            create_keys(self.keys)
        self.signer = load_signer(self.keys)
        self.verdict: Callable[[Request, Mapping[str, RealResult], str], Decision] = lambda *_: say(Verdict.PASS)
        self.robots = {
            name: FakeRobot(name, robot.rungs, folder, self.keys, self.clock) for name, robot in rules.robots.items()
        }
        self.rng = np.random.default_rng(0)
        self.run_id = f"{time.monotonic_ns():x}"  # a restarted process must not repeat ids
        self.ids = itertools.count(1)
        self.probe: Callable[[str], None] = ignore_moment
        self.queue: Queue | None = None
        self.scheduler: Scheduler | None = None

    def open_queue(self) -> Queue:
        return Queue(
            self.folder / "state",
            AuditLog(self.folder / "state" / "audit.jsonl", self.signer),
            probe=lambda moment: self.probe(moment),
        )

    def start(self) -> Scheduler:
        """A fresh scheduler on whatever the last one left."""
        self.kill()
        self.queue = self.open_queue()
        self.scheduler = Scheduler(
            self.queue,
            self.rules,
            self.signer,
            lambda *arguments: self.verdict(*arguments),
            self.clock,
            lambda: f"id{self.run_id}x{next(self.ids)}",
            steady_s=lambda: self.clock() * 1e-9,
        )
        return self.scheduler

    def kill(self) -> None:
        if self.queue is not None:
            self.queue.close()
        self.queue = self.scheduler = None

    def round(self) -> None:
        """Heartbeats, one tick, one episode on every robot that runs, and the reports."""
        self.clock.advance(1.0)
        assert self.scheduler is not None
        scheduler = self.scheduler
        for robot in self.robots.values():
            if robot.is_reachable and robot.has_power:
                scheduler.hear(robot.name)
        orders = scheduler.tick()
        for lease in orders.cancel:
            robot = self.robots[lease.robot]
            if robot.is_reachable:
                robot.verifier.accept_revocations(scheduler.revocations())
                robot.running = None
                self._report(lease, is_over=True)
        for lease in orders.send:
            self._deliver(lease)
        for lease in orders.settle:
            robot = self.robots[lease.robot]
            if robot.is_reachable and robot.has_power:
                robot.verifier.accept_revocations(scheduler.revocations())
                robot.running = None if robot.running and robot.running.lease_id == lease.id else robot.running
                robot.journal.break_off_unfinished()
                self._report(lease, is_over=True)

    def ask(self, name: str, decision: Decision | None = None, /, *, request_id: str = "", **terms: Any) -> Request:
        """File ada's request for a candidate of that name, which the gate passes unless told otherwise."""
        usual: dict[str, Any] = {"candidate_id": name, "name": name, "path": f"/c/{name}", "score": 0.1}
        asked = NewRequest(**(usual | {"requested_by": "ada"} | terms))
        assert self.queue is not None
        found = decision or say(Verdict.PASS)
        return submit_request(self.queue, self.rules, asked, found, request_id or f"q-{name}", self.clock())

    def run_until_done(self, most: int = 300) -> int:
        """How many rounds it took until nothing was queued."""
        assert self.queue is not None
        for count in range(most):
            if not self.queue.requests("queued"):
                return count
            self.round()
        raise AssertionError(f"still queued: {self.queue.requests('queued')}")

    def lines(self, kind: str = "") -> list[Entry]:
        """The audit log's, or those of one kind."""
        entries = read_audit_log(self.folder / "state" / "audit.jsonl")
        return [entry for entry in entries if kind in ("", entry.kind)]

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.lines()]

    def _deliver(self, lease: Lease) -> None:
        robot = self.robots[lease.robot]
        assert self.scheduler is not None
        if not (robot.is_reachable and robot.has_power):
            return
        try:
            answer = robot.take(lease)
        except PermitRefused as error:
            self.scheduler.end(lease.id, str(error), is_refused=True)
            return
        if answer == "busy":
            return
        self.scheduler.begin(lease.id)
        if answer == "running":
            robot.run_one(self.rates.get(lease.candidate_id, 1.0), self.rng)
        self._report(lease, is_over=robot.running is None)

    def _report(self, lease: Lease, *, is_over: bool) -> None:
        assert self.scheduler is not None
        for episode in self.robots[lease.robot].journal.episodes_of(lease.id):
            is_success = None if episode.outcome == "aborted" else episode.outcome == "success"
            self.scheduler.report(lease.id, episode.episode_id, is_success, episode.safety_events)
        if is_over:
            self.scheduler.end(lease.id)

    def executed(self) -> list[str]:
        return [episode for robot in self.robots.values() for episode in robot.executed]


def play(fleet: Fleet) -> None:
    """Start the scheduler, file one request if there is none, and continue until it has ended."""
    fleet.start()
    assert fleet.queue is not None
    if not fleet.queue.requests():
        fleet.ask("a")
    while fleet.queue.requests("queued"):
        fleet.round()
    fleet.round()
