"""Halt and resume robots: all that are known or were ever leased, and which of them have to confirm."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opc_ros.deployment.approval_queue import as_evidence, check_person
from opc_ros.deployment.line_rate import LONGEST, MINUTE_NS
from opc_ros.deployment.permit import Revocations
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import OPEN_LEASE_STATES
from opc_ros.deployment.revoking import revoke_leases
from opc_ros.deployment.row_check import HALTED_ALL
from opc_ros.deployment.statement import Statement
from opc_ros.documents import canonical_json, parse_json, read_bytes, shorten
from opc_ros.durable import create_file
from opc_ros.errors import DeploymentError, OpcError

OPEN = str(OPEN_LEASE_STATES)
MOST_REPEATS_A_MINUTE = 20


@dataclass(frozen=True, slots=True)
class Halt:
    """What a halt covers; it is in force from the moment it is written."""

    robots: tuple[str, ...]
    awaited: tuple[str, ...]  # robots that may be moving, including lost ones
    open_on: tuple[str, ...]  # those of them that still hold a lease, which they have to give back
    serial: int  # of the list of revoked permits that a robot has to receive


def halt(queue: Queue, robot: str, person: str, reason: str, now_ns: int) -> Halt:
    """Grant no more leases and revoke the open ones, for one robot, or for all of them if `robot` is empty."""
    person, reason = as_text(person), as_text(reason)
    check_person(person)
    by = f"{person}: {reason}".strip(": ")
    with queue.change("halt", now_ns) as tell:
        chosen = _choose(queue, robot)
        if _says_nothing_new(queue, robot, chosen, now_ns):
            awaited = tuple(name for name in chosen if _may_be_moving(queue, name, now_ns))
            return Halt(chosen, awaited, (), queue.fact("revocation_serial"))
        awaited = tuple(name for name in chosen if _may_be_moving(queue, name, now_ns))
        open_on = tuple(name for name in chosen if _has_open_lease(queue, name))
        for name in chosen:
            queue.execute("INSERT OR IGNORE INTO robots (name) VALUES (?)", name)
            queue.execute("UPDATE robots SET halted_by = ? WHERE name = ?", by, name)
            revoke_leases(queue, tell, f"halted by {person}", robot=name)
        if not robot:
            queue.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", HALTED_ALL, by)
        # Even where no robot is leased: a robot that confirms this serial has received this halt.
        serial = queue.fact("revocation_serial") + 1
        queue.set_fact("revocation_serial", serial)
        tell("halt", {"robot": robot or "all", "robots": chosen, "person": person, "reason": reason})
    return Halt(chosen, awaited, open_on, serial)


def _says_nothing_new(queue: Queue, robot: str, chosen: tuple[str, ...], now_ns: int) -> bool:
    """Limit how many repeated halts per minute are recorded: a halt needs no key, so anybody can send them."""
    rows = queue.robots()
    is_halted = all(name in rows and rows[name].halted_by for name in chosen)
    is_for_later = bool(robot) or bool(queue.rows("SELECT 1 FROM facts WHERE name = ?", HALTED_ALL))
    if not is_halted or not is_for_later or any(_has_open_lease(queue, name) for name in chosen):
        return False
    newest = queue.rows("SELECT kind, at_ns FROM events ORDER BY change DESC LIMIT ?", MOST_REPEATS_A_MINUTE)
    recent = [row for row in newest if row["kind"] == "halt" and 0 <= now_ns - row["at_ns"] < MINUTE_NS]
    return len(recent) == MOST_REPEATS_A_MINUTE


def resume(
    queue: Queue, robot: str, person: str, reason: str, now_ns: int, statement: Statement | None = None
) -> tuple[str, ...]:
    """Undo `halt`, and return which robots that applies to; revoked leases stay revoked, and new ones are granted."""
    person, reason = as_text(person), as_text(reason)
    check_person(person)
    with queue.change("resume", now_ns) as tell:
        if statement is not None:
            queue.keep_statement(statement, "", now_ns)
        chosen = _choose(queue, robot)
        for name in chosen:
            queue.execute("UPDATE robots SET halted_by = '' WHERE name = ?", name)
        if not robot:
            queue.execute("DELETE FROM facts WHERE name = ?", HALTED_ALL)
        body = {"robot": robot or "all", "robots": chosen, "person": person, "reason": reason}
        tell("resume", body | as_evidence(statement))
    return chosen


def enlist_robot(queue: Queue, robot: str) -> None:
    """Within a change: start tracking a robot; while all robots are halted, it is too."""
    found = queue.rows("SELECT value FROM facts WHERE name = ?", HALTED_ALL)
    queue.execute("INSERT OR IGNORE INTO robots (name, halted_by) VALUES (?, ?)", robot, found[0][0] if found else "")


def foresee_halt(folder: Path, robot: str, person: str, now_ns: int) -> tuple[Halt, Revocations]:
    """What a halt will cover and revoke, read without waiting for programs that change the queue, and without writing.

    A program that hangs while it holds the queue must not keep robots moving.
    """
    check_person(person)
    if not (folder / "queue.db").exists():
        return Halt((), (), (), 0), Revocations(0, ())
    try:
        database = sqlite3.connect(f"file:{folder / 'queue.db'}?mode=ro", uri=True)
        database.row_factory = sqlite3.Row
        with closing(database):
            seen = _Reader(database)
            chosen = _choose(seen, robot)
            awaited = tuple(name for name in chosen if _may_be_moving(seen, name, now_ns))
            permits = seen.rows(f"SELECT permit_id, robot FROM leases WHERE expires_ns > ? OR state IN {OPEN}", now_ns)
            serial = int(seen.rows("SELECT coalesce(max(value), 0) FROM facts WHERE name = 'revocation_serial'")[0][0])
            open_on = tuple(name for name in awaited if _has_open_lease(seen, name))
    except sqlite3.Error as error:
        raise DeploymentError(f"{folder / 'queue.db'}: cannot be read: {error}") from error
    revoked = tuple(sorted(row[0] for row in permits if row[1] in chosen))
    return Halt(chosen, awaited, open_on, serial + 1), Revocations(serial + 1, revoked)


def leave_halt(folder: Path, robot: str, person: str, reason: str, now_ns: int) -> None:
    """Leave a halt as a file, for when a hung program holds the queue; it takes effect when the scheduler next runs."""
    body = {"robot": robot, "person": as_text(person), "reason": as_text(reason)}
    create_file(folder / f"halt-{now_ns}.json", canonical_json(body).encode())


def obey_left_halts(queue: Queue, now_ns: int) -> None:
    """Carry out the halts left by `leave_halt`; a file that cannot be read halts all robots."""
    for path in sorted(queue.folder.glob("halt-*.json")):
        try:
            body = parse_json(read_bytes(path, limit=1 << 16), where=str(path))
            robot, person, reason = (str(body[name]) for name in ("robot", "person", "reason"))
        except (OpcError, KeyError, TypeError):
            robot, person, reason = "", "nobody", f"{path.name} cannot be read"
        halt(queue, robot, person, reason, now_ns)
        path.unlink(missing_ok=True)


def given_back(queue: Queue, halted: Halt) -> tuple[str, ...]:
    """Robots that have given back their revoked lease, as far as the scheduler knows."""
    leased = {lease.robot for lease in queue.open_leases()}
    return tuple(name for name in halted.open_on if name not in leased)


def as_text(given: str) -> str:
    """Text from an untrusted source, made safe to keep: shortened, with bytes that are not UTF-8 escaped."""
    return shorten(given[: 10 * LONGEST].encode("utf-8", "backslashreplace").decode(), LONGEST - 20)


class _Rows(Protocol):
    def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]: ...


@dataclass(frozen=True, slots=True)
class _Reader:
    database: sqlite3.Connection

    def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        return self.database.execute(statement, values).fetchall()


def _choose(queue: _Rows, robot: str) -> tuple[str, ...]:
    rows = queue.rows("SELECT name FROM robots UNION SELECT robot FROM leases ORDER BY 1")
    known = tuple(str(row[0]) for row in rows)
    if not robot:
        return known
    if robot not in known:
        raise DeploymentError(f"robot {robot!r}: not one of this deployment, which knows {', '.join(known) or 'none'}")
    return (robot,)


def _may_be_moving(queue: _Rows, robot: str, now_ns: int) -> bool:
    """A lost lease counts until its permit has expired: the robot may be out of reach but still running."""
    open_or_lost = f"state IN {OPEN} OR (state = 'lost' AND expires_ns > ?)"
    return bool(queue.rows(f"SELECT 1 FROM leases WHERE robot = ? AND ({open_or_lost})", robot, now_ns))


def _has_open_lease(queue: _Rows, robot: str) -> bool:
    return bool(queue.rows(f"SELECT 1 FROM leases WHERE robot = ? AND state IN {OPEN}", robot))
