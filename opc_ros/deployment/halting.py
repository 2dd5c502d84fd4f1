"""Halt robots and resume them: every robot that is known or was ever lent, and who has to confirm it."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.deployment.keys import Signer
from opc_ros.deployment.permit import Signed
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.revoking import revocation_list, revoke_leases
from opc_ros.errors import DeploymentError

HALTED_ALL = "halted_all"  # fact: who halted all robots, for robots that come later


@dataclass(frozen=True, slots=True)
class Halt:
    """What a halt covers; it counts from the moment it is written, whoever hears of it when."""

    robots: tuple[str, ...]
    awaited: tuple[str, ...]  # hold robot time, or may: a robot that was lost may still be moving
    open_on: tuple[str, ...]  # those of them that hold a lease, which they give back
    serial: int  # of the list of revoked permits that a robot has to hear


def halt(queue: Queue, robot: str, person: str, reason: str, now_ns: int) -> Halt:
    """Lend no robot time and revoke what is lent; one robot's, or everybody's where it is empty."""
    person, reason = as_text(person), as_text(reason)
    _check_person(person)
    by = f"{person}: {reason}".strip(": ")
    with queue.change("halt", now_ns) as tell:
        chosen = _choose(queue, robot)
        awaited = tuple(name for name in chosen if _may_be_moving(queue, name, now_ns))
        open_on = still_lent(queue, chosen)
        for name in chosen:
            queue.execute("INSERT OR IGNORE INTO robots (name) VALUES (?)", name)
            queue.execute("UPDATE robots SET halted_by = ? WHERE name = ?", by, name)
            revoke_leases(queue, tell, f"halted by {person}", robot=name)
        if not robot:
            queue.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", HALTED_ALL, by)
        # Also where nothing is lent: a robot that names this serial has heard of this halt.
        serial = queue.fact("revocation_serial") + 1
        queue.set_fact("revocation_serial", serial)
        tell("halt", {"robot": robot or "all", "robots": chosen, "person": person, "reason": reason})
    return Halt(chosen, awaited, open_on, serial)


def resume(queue: Queue, robot: str, person: str, reason: str, now_ns: int) -> tuple[str, ...]:
    """Take up again what `halt` stopped, and say for whom; what was revoked stays so, and is lent anew."""
    person, reason = as_text(person), as_text(reason)
    _check_person(person)
    with queue.change("resume", now_ns) as tell:
        chosen = _choose(queue, robot)
        for name in chosen:
            queue.execute("UPDATE robots SET halted_by = '' WHERE name = ?", name)
        if not robot:
            queue.execute("DELETE FROM facts WHERE name = ?", HALTED_ALL)
        tell("resume", {"robot": robot or "all", "robots": chosen, "person": person, "reason": reason})
    return chosen


def enlist_robot(queue: Queue, robot: str) -> None:
    """Within a change: know a robot from now on; while all are halted, it is too."""
    found = queue.rows("SELECT value FROM facts WHERE name = ?", HALTED_ALL)
    queue.execute("INSERT OR IGNORE INTO robots (name, halted_by) VALUES (?, ?)", robot, found[0][0] if found else "")


def signed_revocations(queue: Queue, signer: Signer, now_ns: int) -> tuple[Signed, frozenset[str]]:
    """The list every robot must hear, and the permits on it."""
    revoked = frozenset(row[0] for row in queue.rows("SELECT permit_id FROM revoked"))
    return revocation_list(queue, signer, now_ns), revoked


def still_lent(queue: Queue, robots: tuple[str, ...]) -> tuple[str, ...]:
    """Robots whose revoked lease they have not given back yet, as far as the scheduler knows."""
    open_on = {lease.robot for lease in queue.open_leases()}
    return tuple(name for name in robots if name in open_on)


def as_text(given: str) -> str:
    """Words from a command line as text that can be kept: bytes that are not UTF-8 are written out as escapes."""
    return given.encode("utf-8", "backslashreplace").decode()


def _choose(queue: Queue, robot: str) -> tuple[str, ...]:
    rows = queue.rows("SELECT name FROM robots UNION SELECT robot FROM leases ORDER BY 1")
    known = tuple(str(row[0]) for row in rows)
    if not robot:
        return known
    if robot not in known:
        raise DeploymentError(f"robot {robot!r}: not one of this deployment, which knows {', '.join(known) or 'none'}")
    return (robot,)


def _may_be_moving(queue: Queue, robot: str, now_ns: int) -> bool:
    """A lost lease counts until its permit has expired: the robot may be out of reach and at work."""
    open_or_lost = "state IN ('granted', 'running', 'revoking') OR (state = 'lost' AND expires_ns > ?)"
    return bool(queue.rows(f"SELECT 1 FROM leases WHERE robot = ? AND ({open_or_lost})", robot, now_ns))


def _check_person(person: str) -> None:
    if not person.strip():
        raise DeploymentError("who decides this? Give a name with --person")
