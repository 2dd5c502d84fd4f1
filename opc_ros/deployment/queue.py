"""The scheduler's durable memory: requests, leases, results and champions in one SQLite file."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from opc_ros.deployment.audit_log import PATIENCE_S, AuditLog
from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.queue_rows import (
    OPEN_LEASE_STATES,
    SCHEMA,
    Lease,
    Request,
    RobotRow,
    RungTally,
    to_lease,
    to_request,
    to_robot,
)
from opc_ros.deployment.statement import Statement
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import AuditLogDamaged, DeploymentError, DiskFull, QueueBusy, SchedulerBusy, StatementRefused

FORMAT = 1
_TABLES = "SELECT 1 FROM sqlite_master WHERE name IN ('facts', 'statements')"  # the first and the newest


def ignore_moment(moment: str) -> None:
    """For everyone but tests that kill the program at a chosen moment."""


_WAY_BACK = (
    "stop the scheduler, put back the newest good copy of queue.db without its -wal and -shm; the audit log beside it "
    "says what was decided since (`opc audit show`)"
)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


class Queue:
    """Everything the scheduler knows; what is not in here or on a robot does not exist.

    A change is one transaction together with the events that tell it. Events are copied to the audit log right after:
    if the program dies in between, whoever opens the queue next copies them, once.
    """

    def __init__(
        self,
        folder: Path,
        audit_log: AuditLog,
        *,
        probe: Callable[[str], None] = ignore_moment,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`patience_s` is how long to wait for another program that is changing it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.audit_log = audit_log
        self._probe = probe
        self._lock = threading.RLock()
        self._epoch: int | None = None
        self._claim_file: TextIO | None = None
        path = folder / "queue.db"
        try:
            self._database = sqlite3.connect(path, isolation_level=None, timeout=patience_s, check_same_thread=False)
            self._database.row_factory = sqlite3.Row
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if len(self.rows(_TABLES)) < 2 or not self.fact("format"):
                # Only then: whoever just looks must not wait for those who write.
                self._database.executescript(SCHEMA)
                self._database.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (str(FORMAT),))
            found = self.fact("format")
            (state,) = self.rows("PRAGMA integrity_check(1)")[0]
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise DeploymentError(f"{path}: no scheduler queue: {error}; {_WAY_BACK}") from error
        if state != "ok":
            raise DeploymentError(f"{path}: damaged: {' '.join(state.split())}; {_WAY_BACK}")
        if found != FORMAT:
            raise DeploymentError(f"{path}: format {found}, this program knows {FORMAT}")
        with suppress(QueueBusy):
            self.copy_events_to_audit_log()

    def claim(self, now_ns: int) -> None:
        """Become the one scheduler of this queue, until the process ends or `close`."""
        file = (self.folder / "scheduler.lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            with self.change("second scheduler", now_ns) as tell:
                tell("second_scheduler_refused", {"holder": holder})
            raise SchedulerBusy(f"{self.folder}: process {holder} schedules here already; stop it first") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._claim_file = file
        with self.change("claim", now_ns) as tell:
            # Where file locks do not reach (some network disks), a newer epoch still shuts the older scheduler out.
            epoch = self.fact("epoch") + 1
            self.set_fact("epoch", epoch)
            tell("scheduler_started", {"epoch": epoch})
        self._epoch = epoch

    def close(self) -> None:
        self._database.close()
        if self._claim_file is not None:
            self._claim_file.close()

    @contextmanager
    def change(self, name: str, now_ns: int) -> Iterator[Callable[[str, dict[str, Any]], None]]:
        """One durable change; gives a function `tell(kind, body)` for the events that belong to it."""
        told: list[tuple[str, dict[str, Any]]] = []
        with self._lock:
            self._begin()
            try:
                if self._epoch is not None and self.fact("epoch") != self._epoch:
                    raise SchedulerBusy(f"{self.folder}: a newer scheduler has taken over; this one must stop")
                yield lambda kind, body: told.append((kind, body))
                self.set_fact("latest_ns", max(now_ns, self.fact("latest_ns")))
                for kind, body in told:
                    text = canonical_json(body, is_ascii=True)
                    self.execute("INSERT INTO events (at_ns, kind, body) VALUES (?, ?, ?)", now_ns, kind, text)
                self._probe(f"before {name}")
                self.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk may have taken it back already
                    self._database.execute("ROLLBACK")
                raise
            self._probe(f"after {name}")
            if told:
                # Where another program hangs on the audit log, the next change copies them: they are in the queue.
                with suppress(QueueBusy):
                    self.copy_events_to_audit_log()
                self._probe(f"told {name}")

    def _begin(self) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise self._explain(error, self.folder / "queue.db") from error
            raise QueueBusy(f"{self.folder / 'queue.db'}: another program is changing it and does not end") from error

    def copy_events_to_audit_log(self) -> None:
        """Append every event the audit log does not have yet, in order."""
        with self.audit_log.exclusive() as (last, append):
            done = int(last.body.get("change", 0)) if last is not None else 0
            newest = self.rows("SELECT coalesce(max(change), 0) FROM events")[0][0]
            if done > newest:
                raise AuditLogDamaged(
                    f"{self.audit_log.path}: tells of change {done}, but the queue ends at {newest}: an old copy of "
                    "queue.db was put back; restore the newest one"
                )
            rows = self.rows("SELECT * FROM events WHERE change > ? ORDER BY change", done)
            bodies = [parse_json(row["body"], where="queue: event") | {"change": row["change"]} for row in rows]
            try:
                if rows:
                    append([(row["kind"], body, row["at_ns"]) for row, body in zip(rows, bodies, strict=True)])
            except OSError as error:
                # They stay in the queue; whoever changes it next copies them.
                raise self._explain(error, self.audit_log.path) from error

    def execute(self, statement: str, *values: Any) -> int:
        try:
            return self._database.execute(statement, values).rowcount
        except sqlite3.DatabaseError as error:
            raise self._explain(error, self.folder / "queue.db") from error

    def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._explain(error, self.folder / "queue.db") from error

    def _explain(self, error: sqlite3.DatabaseError | OSError, path: Path) -> Exception:
        """One line for what a disk does to us; anything else is a mistake of ours and stays what it is."""
        if isinstance(error, OSError):
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            told = error.strerror or str(error)
        else:
            is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            told = " ".join(str(error).split())
        if is_full:
            return DiskFull(f"{path}: {told}; nothing is lent until there is space")
        # Text that is no text has no code of SQLite's.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if isinstance(error, OSError) or code & 0xFF in _BROKEN:
            return DeploymentError(f"{path}: {told}; {_WAY_BACK}")
        return error

    def fact(self, name: str) -> int:
        found = self.rows("SELECT value FROM facts WHERE name = ?", name)
        return int(found[0][0]) if found else 0

    def set_fact(self, name: str, value: int) -> None:
        self.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, str(value))

    def requests(self, *states: str) -> list[Request]:
        marks = ", ".join("?" * len(states))
        where = f"WHERE state IN ({marks})" if states else ""
        return [to_request(row) for row in self.rows(f"SELECT * FROM requests {where} ORDER BY seq", *states)]

    def request(self, request_id: str) -> Request:
        found = self.rows("SELECT * FROM requests WHERE id = ?", request_id)
        if not found:
            raise DeploymentError(f"request {request_id!r}: there is none; `opc deploy status` lists them")
        return to_request(found[0])

    def set_request(self, request_id: str, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self.execute(f"UPDATE requests SET {names} WHERE id = ?", *values.values(), request_id)

    def keep_statement(self, statement: Statement, request_id: str, now_ns: int) -> None:
        """Within a change: what a person signed, once; it is what their approval is derived from ever after."""
        try:
            self.execute(
                "INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?)",
                *(statement.nonce, statement.kind, statement.person, request_id, statement.envelope, now_ns),
            )
        except sqlite3.IntegrityError:
            raise StatementRefused(f"{statement.kind} by {statement.person}: was acted on already") from None

    def has_nonce(self, nonce: str) -> bool:
        return bool(self.rows("SELECT 1 FROM statements WHERE nonce = ?", nonce))

    def envelopes(self, request_id: str) -> list[str]:
        """What people signed about a request, oldest first."""
        rows = self.rows("SELECT envelope FROM statements WHERE request_id = ? ORDER BY at_ns", request_id)
        return [str(row[0]) for row in rows]

    def open_leases(self) -> list[Lease]:
        marks = ", ".join("?" * len(OPEN_LEASE_STATES))
        found = self.rows(f"SELECT * FROM leases WHERE state IN ({marks}) ORDER BY seq", *OPEN_LEASE_STATES)
        return [to_lease(row) for row in found]

    def lost_leases(self) -> list[Lease]:
        """Of which nobody has asked the robot's journal yet."""
        return [to_lease(row) for row in self.rows("SELECT * FROM leases WHERE state = 'lost' ORDER BY seq")]

    def lease(self, lease_id: str) -> Lease | None:
        found = self.rows("SELECT * FROM leases WHERE id = ?", lease_id)
        return to_lease(found[0]) if found else None

    def set_lease(self, lease_id: str, state: str) -> None:
        self.execute("UPDATE leases SET state = ? WHERE id = ?", state, lease_id)

    def robots(self) -> dict[str, RobotRow]:
        return {row["name"]: to_robot(row) for row in self.rows("SELECT * FROM robots ORDER BY name")}

    def tally(self, request: Request) -> RungTally:
        """What a request has done on its present rung."""
        done = self.rows(
            "SELECT coalesce(sum(success), 0), count(success), count(*) - count(success),"
            " coalesce(sum(safety_events), 0) FROM results WHERE request_id = ? AND rung = ?",
            request.id,
            request.rung,
        )[0]
        lent = self.rows(
            "SELECT coalesce(sum(episodes - (SELECT count(*) FROM results WHERE lease_id = leases.id)), 0)"
            " FROM leases WHERE request_id = ? AND rung = ? AND state IN ('granted', 'running', 'revoking')",
            request.id,
            request.rung,
        )[0]
        lost = self.rows(
            "SELECT count(*) FROM leases WHERE request_id = ? AND rung = ? AND state IN ('lost', 'settled')",
            request.id,
            request.rung,
        )[0]
        return RungTally(done[0], done[1], done[2] + lost[0], done[3], outstanding=lent[0])

    def real_results(self, rungs: tuple[Rung, ...] = (Rung.REDUCED, Rung.FULL)) -> dict[str, RealResult]:
        """What each candidate has done on real arms, at reduced speed and at full, over all its requests."""
        found = self.rows(
            "SELECT candidate_id, sum(success), count(success) FROM results"
            f" WHERE rung IN ({', '.join('?' * len(rungs))}) AND success IS NOT NULL GROUP BY candidate_id",
            *rungs,
        )
        return {row[0]: RealResult(int(row[1]), int(row[2])) for row in found}

    def outcomes(self, candidate_id: str, rung: Rung = Rung.FULL) -> list[bool]:
        """Successes and failures of one candidate on a rung, in the order they came."""
        found = self.rows(
            "SELECT success FROM results WHERE candidate_id = ? AND rung = ? AND success IS NOT NULL"
            " ORDER BY at_ns, episode_id",
            candidate_id,
            rung,
        )
        return [bool(row[0]) for row in found]

    def champion(self) -> tuple[str, float] | None:
        """The present champion's id and score."""
        found = self.rows("SELECT candidate_id, score FROM champions WHERE is_withdrawn = 0 ORDER BY seq DESC LIMIT 1")
        return (found[0][0], found[0][1]) if found else None
