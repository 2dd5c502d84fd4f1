"""A request that meets every possible problem, one after the other; a killed process resumes from what is on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from opc_ros.deployment.approval_queue import accept_clock, decide_request
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.halting import halt, resume
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.scheduler import Scheduler
from opc_ros.errors import SchedulerBusy
from tests.deployment.fleet import Fleet, say

PATIENCE = 60  # rounds of a second


def play_troubled(fleet: Fleet) -> None:
    """Start the scheduler and go through what has not happened yet."""
    fleet.verdict = lambda *_: say(Verdict.INCONCLUSIVE)
    for robot in fleet.robots.values():
        robot.is_reachable = True
    scheduler = fleet.start()
    queue = fleet.queue
    assert queue is not None
    troubles: tuple[tuple[str, Callable[[Fleet, Queue, Scheduler], object]], ...] = (
        ("request", _ask),
        ("approve", lambda fleet, queue, _: _decide(fleet, queue, "q-a", "approve")),
        ("halt", _halt),
        ("resume", lambda fleet, queue, _: resume(queue, "", "bob", "aired", fleet.clock())),
        ("lease_lost", _cut_off),
        ("gate_closed", _close_gate),
        ("override", lambda fleet, queue, _: _decide(fleet, queue, "q-a", "override")),
        ("robot_refused", lambda fleet, _, scheduler: scheduler.refusal("arm1", "no permit")),
        ("odd_report", lambda fleet, _, scheduler: scheduler.report("nobody", "nobody-000", True, 0)),
        ("clock_set_back", _set_clock_back),
        ("clock_right", lambda fleet, *_: fleet.round()),
        ("clock_accepted", lambda fleet, queue, _: accept_clock(queue, "bob", "checked", fleet.clock())),
        ("second_scheduler_refused", _start_another),
        ("reject", _ask_and_reject),
    )
    for kind, cause in troubles:
        if not queue.rows("SELECT 1 FROM events WHERE kind = ?", kind):
            cause(fleet, queue, scheduler)
    while queue.requests("queued"):
        fleet.round()
    fleet.round()


def _ask(fleet: Fleet, queue: Queue, _: Scheduler) -> None:
    fleet.ask("a", say(Verdict.INCONCLUSIVE))


def _decide(fleet: Fleet, queue: Queue, request_id: str, word: Literal["approve", "reject", "override"]) -> None:
    decide_request(queue, request_id, word, "bob", "looked at it", fleet.clock())


def _lend(fleet: Fleet, queue: Queue, scheduler: Scheduler) -> str:
    """Lease a robot that has not heard of the lease yet; returns its name."""
    for _ in range(PATIENCE):
        if leases := queue.open_leases():
            return leases[0].robot
        fleet.clock.advance(1.0)
        for name in fleet.robots:
            scheduler.hear(name)
        scheduler.tick()
    raise AssertionError("no robot is leased")


def _halt(fleet: Fleet, queue: Queue, scheduler: Scheduler) -> None:
    _lend(fleet, queue, scheduler)
    halt(queue, "", "bob", "smoke", fleet.clock())


def _cut_off(fleet: Fleet, queue: Queue, scheduler: Scheduler) -> None:
    robot = fleet.robots[_lend(fleet, queue, scheduler)]
    robot.is_reachable = False
    _go_on_until(fleet, queue, "lease_lost")
    robot.is_reachable = True


def _close_gate(fleet: Fleet, queue: Queue, _: Scheduler) -> None:
    fleet.verdict = lambda *_: say(Verdict.FAIL, "agreement")
    _go_on_until(fleet, queue, "gate_closed")
    fleet.verdict = lambda *_: say(Verdict.INCONCLUSIVE)


def _set_clock_back(fleet: Fleet, queue: Queue, _: Scheduler) -> None:
    fleet.clock.advance(-3600.0)
    try:
        fleet.round()
    finally:
        fleet.clock.advance(3600.0)


def _start_another(fleet: Fleet, _: Queue, __: Scheduler) -> None:
    other = fleet.open_queue()
    try:
        with suppress(SchedulerBusy):
            other.claim(fleet.clock())
    finally:
        other.close()


def _ask_and_reject(fleet: Fleet, queue: Queue, _: Scheduler) -> None:
    if len(queue.requests()) == 1:
        fleet.ask("b", say(Verdict.INCONCLUSIVE))
    _decide(fleet, queue, "q-b", "reject")


def _go_on_until(fleet: Fleet, queue: Queue, kind: str) -> None:
    for _ in range(PATIENCE):
        if queue.rows("SELECT 1 FROM events WHERE kind = ?", kind):
            return
        fleet.round()
    raise AssertionError(f"no {kind}")
