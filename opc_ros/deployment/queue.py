"""The scheduler's durable memory: requests, leases, results and champions in one SQLite file."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from opc_ros.deployment.audit_log import PATIENCE_S, AuditLog
from opc_ros.deployment.queue_reader import FILE_NAME, FORMAT, QueueReader, no_queue
from opc_ros.deployment.queue_rows import SCHEMA
from opc_ros.deployment.statement import Statement
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import AuditLogDamaged, QueueBusy, SchedulerBusy, StatementRefused

_TABLES = "SELECT 1 FROM sqlite_master WHERE name IN ('facts', 'statements')"  # the first and the newest


def ignore_moment(moment: str) -> None:
    """For everyone but tests that kill the program at a chosen moment."""


class Queue(QueueReader):
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
        self.audit_log = audit_log
        self._probe = probe
        self._lock = threading.RLock()
        self._epoch: int | None = None
        self._claim_file: TextIO | None = None
        path = folder / FILE_NAME
        try:
            database = sqlite3.connect(path, isolation_level=None, timeout=patience_s, check_same_thread=False)
            super().__init__(folder, database)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if len(self.rows(_TABLES)) < 2 or not self.fact("format"):
                # Only then: whoever just looks must not wait for those who write.
                self._database.executescript(SCHEMA)
                self._database.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (str(FORMAT),))
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise no_queue(path, error) from error
        self.check_whole()
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
                raise self._explain(error, self.folder / FILE_NAME) from error
            raise QueueBusy(f"{self.folder / FILE_NAME}: another program is changing it and does not end") from error

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
            raise self._explain(error, self.folder / FILE_NAME) from error

    def set_fact(self, name: str, value: int) -> None:
        self.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, str(value))

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

    def set_lease(self, lease_id: str, state: str) -> None:
        self.execute("UPDATE leases SET state = ? WHERE id = ?", state, lease_id)
