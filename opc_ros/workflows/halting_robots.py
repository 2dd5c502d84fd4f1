"""Halt robots for a person: tell them first, record it, and report who has confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.halting import Halt, foresee_halt, given_back, halt, leave_halt
from opc_ros.deployment.permit import Revocations, sign_revocations
from opc_ros.deployment.revoking import list_revoked
from opc_ros.errors import QueueBusy

PATIENCE_S = 1.0  # how long to wait for a program that holds the queue
PULSE_S = 0.05


class RobotCall(Protocol):
    """A direct connection to the robots, without the scheduler."""

    def __enter__(self) -> RobotCall: ...

    def __exit__(self, *_: object) -> None: ...

    def tell(self, revocations: str) -> None: ...

    def wait(
        self, serial: int, revoked: frozenset[str], given_back: Callable[[], Iterable[str]], timeout_s: float
    ) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class HaltResult:
    """Which robots are halted, and what is known about each."""

    halted: tuple[str, ...]
    confirmed: tuple[str, ...]
    unconfirmed: tuple[str, ...]  # may be moving, and have not confirmed that they stopped
    idle: tuple[str, ...]  # had no lease
    is_written: bool  # to the queue; otherwise to a file beside it, because another program holds the queue


def halt_robots(
    state: Path,
    robot: str,
    person: str,
    reason: str,
    timeout_s: float,
    call_robots: Callable[[tuple[str, ...]], RobotCall | None],
) -> HaltResult:
    """Halt, whatever the scheduler is doing: robots are told directly, before anything waits for the queue."""
    folder = DeploymentFolder(state)
    signer = folder.signer()
    with ExitStack() as held:
        halted, revocations = foresee_halt(folder.path, robot, person, time.time_ns())
        call = call_robots(halted.awaited) if halted.awaited else None
        if call is not None:
            held.enter_context(call).tell(to_text(sign_revocations(revocations, signer)))
        try:
            queue, _ = held.enter_context(folder.open(patience_s=PATIENCE_S))
            halted = halt(queue, robot, person, reason, time.time_ns())
            revocations = list_revoked(queue, time.time_ns())
        except QueueBusy:
            leave_halt(folder.path, robot, person, reason, time.time_ns())
            return _sum_up(halted, _wait(call, halted, revocations, lambda: (), timeout_s), is_written=False)
        if call is not None:
            call.tell(to_text(sign_revocations(revocations, signer)))
        confirmed = _wait(call, halted, revocations, lambda: given_back(queue, halted), timeout_s)
    return _sum_up(halted, confirmed, is_written=True)


def _wait(
    call: RobotCall | None,
    halted: Halt,
    revocations: Revocations,
    given_back: Callable[[], Iterable[str]],
    timeout_s: float,
) -> frozenset[str]:
    """Wait for the robots' own confirmations or, without ROS on this machine, for the scheduler's records."""
    if call is not None:
        return call.wait(revocations.serial, frozenset(revocations.permit_ids), given_back, timeout_s)
    deadline_s = time.monotonic() + timeout_s
    while not set(halted.awaited) <= set(given_back()) and time.monotonic() < deadline_s:
        time.sleep(PULSE_S)
    return frozenset(given_back())


def _sum_up(halted: Halt, confirmed: frozenset[str], *, is_written: bool) -> HaltResult:
    return HaltResult(
        halted=halted.robots,
        confirmed=tuple(name for name in halted.awaited if name in confirmed),
        unconfirmed=tuple(name for name in halted.awaited if name not in confirmed),
        idle=tuple(name for name in halted.robots if name not in halted.awaited),
        is_written=is_written,
    )
