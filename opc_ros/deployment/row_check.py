"""Rows of the queue are caches of sealed events: an edited row is put back, and the audit log records it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.event_seal import EventSeal
from opc_ros.deployment.queue_rows import OPEN_LEASE_STATES
from opc_ros.deployment.signed_state import ENDS, SignedState
from opc_ros.documents import parse_json
from opc_ros.errors import DeploymentError

HALTED_ALL = "halted_all"  # fact: who halted all robots; applies to robots added later, too
_RESULT = "lease_id, request_id, candidate_id, robot, rung, success, safety_events, recording"
_TERMS = "request_id, candidate_id, robot, rung, episodes, permit_id, expires_ns"


class Rows(Protocol):
    """A queue inside a transaction."""

    audit_log: AuditLog

    def rows(self, statement: str, *values: Any) -> list[Any]: ...
    def execute(self, statement: str, *values: Any) -> int: ...


@dataclass(frozen=True, slots=True)
class Correction:
    """One row that differed from what was signed."""

    table: str
    key: str
    found: str
    signed: str


class RowCheck:
    """Follows the events of one queue, and knows what its rows must say."""

    def __init__(self, seal: EventSeal) -> None:
        self._seal = seal
        self._state = SignedState()
        self._followed = 0  # number of the last event that was followed

    def correct(self, queue: Rows) -> tuple[Correction, ...]:
        """Within a transaction: put back every row that differs; refuse what cannot be put back."""
        put_back = tuple(self._follow(queue))
        return (
            *put_back,
            *self._check_requests(queue),
            *self._check_leases(queue),
            *self._check_results(queue),
            *self._check_champions(queue),
            *self._check_halts(queue),
            *self._check_revoked(queue),
            *self._check_statements(queue),
        )

    def _follow(self, queue: Rows) -> Iterator[Correction]:
        rows = {
            row["change"]: row
            for row in queue.rows("SELECT * FROM events WHERE change > ? ORDER BY change", self._followed)
        }
        newest = max(rows, default=self._followed)
        doubtful = {
            change
            for change in range(self._followed + 1, newest + 1)
            if change not in rows or not self._fits(rows[change])
        }
        logged = self._seal.read_log(queue.audit_log.path, doubtful) if doubtful else {}
        for change in range(self._followed + 1, newest + 1):
            if change in logged:
                at_ns, kind, body = logged[change]
                row = rows.get(change)
                if row is None or (row["at_ns"], row["kind"], row["body"]) != logged[change]:
                    yield Correction("events", str(change), row["kind"] if row else "nothing", kind)
                sealed = self._seal.of(change, at_ns, kind, body)
                queue.execute("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)", change, at_ns, kind, body, sealed)
            elif change in doubtful:
                if change in rows:
                    yield Correction("events", str(change), rows[change]["kind"], "nothing: it has no valid seal")
                continue
            else:
                at_ns, kind, body = (rows[change][name] for name in ("at_ns", "kind", "body"))
            try:
                self._state.follow(kind, parse_json(body, where="event"), at_ns)
            except (KeyError, TypeError, AttributeError) as error:
                raise DeploymentError(f"queue.db: event {change} ({kind}) cannot be followed: {error!r}") from error
        self._followed = newest

    def _fits(self, row: Any) -> bool:
        return self._seal.fits(row["change"], row["at_ns"], row["kind"], row["body"], row["seal"])

    def _check_requests(self, queue: Rows) -> Iterator[Correction]:
        rows = {row["id"]: row for row in queue.rows("SELECT * FROM requests")}
        for key, signed in self._state.requests.items():
            row = rows.get(key)
            if row is None:
                raise DeploymentError(f"queue.db: request {key} was deleted; put back the newest good copy")
            wanted: dict[str, Any] = {"candidate_id": signed.candidate_id, "identity": signed.identity}
            if signed.rung:
                wanted["rung"] = signed.rung
            if signed.end:
                wanted["state"] = signed.end
            elif row["state"] in ENDS:
                wanted["state"] = "waiting"
            if row["is_exploration"] and not signed.is_exploration:
                wanted["is_exploration"] = 0
            for column, value in wanted.items():
                if row[column] != value:
                    queue.execute(f"UPDATE requests SET {column} = ? WHERE id = ?", value, key)
                    yield Correction("requests", key, f"{column} {row[column]}"[:200], f"{column} {value}"[:200])

    def _check_leases(self, queue: Rows) -> Iterator[Correction]:
        rows = {row["id"]: row for row in queue.rows(f"SELECT id, state, permit, {_TERMS} FROM leases")}
        for key, terms in self._state.leases.items():
            row = rows.pop(key, None)
            digest = "" if row is None else hashlib.sha256(str(row["permit"]).encode()).hexdigest()
            # A lease that is over needs no permit: a queue restored from an older audit log has none.
            is_gone = row is not None and not row["permit"] and row["state"] not in OPEN_LEASE_STATES
            if row is None or (digest != terms.permit_sha256 and not is_gone):
                raise DeploymentError(f"queue.db: lease {key} has lost its permit; put back the newest good copy")
            for column in _TERMS.split(", "):
                signed = getattr(terms, column)
                if row[column] != signed:
                    queue.execute(f"UPDATE leases SET {column} = ? WHERE id = ?", signed, key)
                    yield Correction("leases", key, f"{column} {row[column]}", f"{column} {signed}")
        for key in rows:
            queue.execute("DELETE FROM leases WHERE id = ?", key)
            yield Correction("leases", str(key), "a lease", "nothing: no permit was signed for it")

    def _check_results(self, queue: Rows) -> Iterator[Correction]:
        rows = {row["episode_id"]: tuple(row)[1:] for row in queue.rows(f"SELECT episode_id, {_RESULT} FROM results")}
        for key, one in self._state.results.items():
            signed = tuple(getattr(one, column) for column in _RESULT.split(", "))
            found = rows.pop(key, None)
            if found != signed:
                queue.execute(
                    f"INSERT OR REPLACE INTO results (episode_id, {_RESULT}, at_ns) VALUES (?{9 * ', ?'})",
                    *(key, *signed, one.at_ns),
                )
                yield Correction("results", key, "nothing" if found is None else _result(found), _result(signed))
        for key, found in rows.items():
            queue.execute("DELETE FROM results WHERE episode_id = ?", key)
            yield Correction("results", str(key), _result(found), "nothing: no robot signed it")

    def _check_champions(self, queue: Rows) -> Iterator[Correction]:
        rows = queue.rows("SELECT candidate_id, is_withdrawn FROM champions ORDER BY seq")
        found = [(str(row[0]), bool(row[1])) for row in rows]
        if found == self._state.champions:
            return
        scores = {str(row[0]): row[1] for row in queue.rows("SELECT candidate_id, score FROM requests")}
        queue.execute("DELETE FROM champions")
        for name, is_withdrawn in self._state.champions:
            queue.execute(
                "INSERT INTO champions (candidate_id, score, at_ns, is_withdrawn) VALUES (?, ?, 0, ?)",
                *(name, scores.get(name, 0.0), is_withdrawn),
            )
        present = next((name for name, is_out in reversed(self._state.champions) if not is_out), "nobody")
        edited = next((name for name, is_out in reversed(found) if not is_out), "nobody")
        yield Correction("champions", "", edited, present)

    def _check_halts(self, queue: Rows) -> Iterator[Correction]:
        """Keep halts that no event records, because stopping needs no signature, and restore those nobody lifted."""
        rows = {row["name"]: row["halted_by"] for row in queue.rows("SELECT name, halted_by FROM robots")}
        for robot, by in self._state.halted.items():
            if not rows.get(robot):
                queue.execute("INSERT OR IGNORE INTO robots (name) VALUES (?)", robot)
                queue.execute("UPDATE robots SET halted_by = ? WHERE name = ?", by, robot)
                yield Correction("robots", robot, "not halted", f"halted by {by}")
        has_all = bool(queue.rows("SELECT 1 FROM facts WHERE name = ?", HALTED_ALL))
        if self._state.halted_all and not has_all:
            queue.execute("INSERT INTO facts VALUES (?, ?)", HALTED_ALL, self._state.halted_all)
            yield Correction("facts", HALTED_ALL, "not halted", f"halted by {self._state.halted_all}")

    def _check_revoked(self, queue: Rows) -> Iterator[Correction]:
        listed = {str(row[0]) for row in queue.rows("SELECT permit_id FROM revoked")}
        for permit_id, lease_id in self._state.revoked.items():
            lease = self._state.leases.get(lease_id)
            if permit_id not in listed and lease is not None:
                queue.execute("INSERT INTO revoked VALUES (?, ?)", permit_id, lease.expires_ns)
                yield Correction("revoked", permit_id, "nothing", "revoked")

    def _check_statements(self, queue: Rows) -> Iterator[Correction]:
        known = {str(row[0]) for row in queue.rows("SELECT nonce FROM statements")}
        for nonce, said in self._state.statements.items():
            if nonce not in known:
                values = (nonce, said.kind, said.person, said.request_id, said.envelope, said.at_ns)
                queue.execute("INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?)", *values)
                yield Correction("statements", nonce, "nothing", f"{said.kind} by {said.person}")


Tell = Callable[[str, dict[str, Any]], None]


def tell_corrections(tell: Tell, corrections: tuple[Correction, ...]) -> None:
    """Write a line to the audit log for each of the first rows that were put back."""
    for each in corrections[:20]:
        body = {"table": each.table, "row": each.key, "found": each.found, "signed": each.signed}
        tell("row_corrected", body | {"corrected": len(corrections)})


def _result(values: tuple[Any, ...]) -> str:
    success = {None: "broken off", 0: "failure", 1: "success"}.get(values[5], str(values[5]))
    return f"{success} of candidate {str(values[2])[:12]} on rung {values[4]}, {values[6]} safety events"
