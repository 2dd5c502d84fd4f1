"""The scheduler's durable memory: requests, leases, results and champions in one SQLite file."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from opc_ros.deployment.audit_log import PATIENCE_S, AuditLog, News
from opc_ros.deployment.event_seal import EventSeal
from opc_ros.deployment.queue_reader import FILE_NAME, FORMAT, QueueReader, no_queue
from opc_ros.deployment.queue_rows import NEW_COLUMNS, SCHEMA, TO_FORMAT_2
from opc_ros.deployment.row_check import Correction, RowCheck, tell_corrections
from opc_ros.deployment.statement import Statement
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import AuditLogDamaged, QueueBusy, QueueEdited, SchedulerBusy, StatementRefused

_TABLES = "SELECT 1 FROM sqlite_master WHERE name IN ('facts', 'counted')"  # the oldest and the newest of them


def ignore_moment(moment: str) -> None:
    """Does nothing; tests replace it to kill the program at a chosen moment."""


class Queue(QueueReader):
    """Everything the scheduler knows, apart from what robots hold in their journals.

    A change and the events that record it are one transaction. The events are then copied to the audit log; if the
    program dies in between, the next program to open the queue copies them, once.
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
        signer = audit_log.signer
        self._seal = EventSeal(signer) if signer is not None else None
        self._row_check: RowCheck | None = None
        self._checked_version = -1  # value of SQLite's counter of changes by other connections at the last check
        self._claim_file: TextIO | None = None
        path = folder / FILE_NAME
        try:
            database = sqlite3.connect(path, isolation_level=None, timeout=patience_s, check_same_thread=False)
            super().__init__(folder, database)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if len(self.rows(_TABLES)) < 2 or not self.fact("format"):
                # Only write if necessary: a program that just reads must not wait for writers.
                if self.rows("SELECT 1 FROM sqlite_master WHERE name = 'facts'") and self.fact("format") == 1:
                    self._database.execute(TO_FORMAT_2)
                    self._database.execute("UPDATE facts SET value = ? WHERE name = 'format'", (str(FORMAT),))
                self._database.executescript(SCHEMA)
                self._database.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (str(FORMAT),))
            for table, column in NEW_COLUMNS:
                if column not in {row["name"] for row in self.rows(f"PRAGMA table_info({table})")}:
                    self._database.execute(f"ALTER TABLE {table} ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise no_queue(path, error) from error
        self.check_whole()
        with suppress(QueueBusy):
            self.copy_events_to_audit_log()

    def claim(self, now_ns: int) -> None:
        """Become the only scheduler of this queue, until the process ends or `close`."""
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
            # Where file locks do not work (some network disks), the newer epoch still shuts out the older scheduler.
            epoch = self.fact("epoch") + 1
            self.set_fact("epoch", epoch)
            tell("scheduler_started", {"epoch": epoch})
        self._epoch = epoch

    def guard_rows(self, now_ns: int) -> None:
        """From now on, let rows changed by other programs count only if the sealed events agree.

        An edited row is put back, and the audit log records which. The audit log must have been checked before.
        """
        if self._seal is None:
            return
        self._row_check, self._checked_version = RowCheck(self._seal), -1
        self.check_rows(now_ns)

    def has_news(self) -> bool:
        """Whether another program has changed something since the last check; takes microseconds."""
        return self._row_check is not None and self._checked_version != self._data_version()

    def check_rows(self, now_ns: int) -> None:
        """Put back rows that another program has edited since the last check, if there are any."""
        if self._row_check is None or not self.has_news():
            return
        with self._lock:
            self._begin()
            told: list[tuple[str, dict[str, Any]]] = []
            try:
                version = self._data_version()
                tell_corrections(lambda kind, body: told.append((kind, body)), self._correct())
                self._insert_events(told, now_ns)
                self.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            self._checked_version = version
            with suppress(QueueBusy):
                self.copy_events_to_audit_log()

    def _correct(self) -> tuple[Correction, ...]:
        assert self._row_check is not None
        assert self._seal is not None
        try:
            return self._row_check.correct(self)
        except BaseException:
            self._row_check = RowCheck(self._seal)  # it may have followed only part of the events
            raise

    def _data_version(self) -> int:
        return int(self.rows("PRAGMA data_version")[0][0])

    def _insert_events(self, told: Sequence[tuple[str, dict[str, Any]]], now_ns: int) -> None:
        for kind, body in told:
            text = canonical_json(body, is_ascii=True)
            change = self._insert("INSERT INTO events (at_ns, kind, body) VALUES (?, ?, ?)", now_ns, kind, text)
            if self._seal is not None:
                seal = self._seal.of(change, now_ns, kind, text)
                self.execute("UPDATE events SET seal = ? WHERE change = ?", seal, change)

    def close(self) -> None:
        self._database.close()
        if self._claim_file is not None:
            self._claim_file.close()

    @contextmanager
    def change(self, name: str, now_ns: int) -> Iterator[Callable[[str, dict[str, Any]], None]]:
        """One durable change; yields a function `tell(kind, body)` that records the events belonging to it."""
        told: list[tuple[str, dict[str, Any]]] = []
        with self._lock:
            self._begin()
            try:
                if self._epoch is not None and self.fact("epoch") != self._epoch:
                    raise SchedulerBusy(f"{self.folder}: a newer scheduler has taken over; this one must stop")
                if self.has_news():
                    # The change was decided on rows that somebody else has edited since.
                    if self._correct():
                        raise QueueEdited(f"{self.folder / FILE_NAME}: another program has edited it: ask again")
                    self._checked_version = self._data_version()
                yield lambda kind, body: told.append((kind, body))
                self.set_fact("latest_ns", max(now_ns, self.fact("latest_ns")))
                self._insert_events(told, now_ns)
                self._probe(f"before {name}")
                self.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:  # SQLite rolls back by itself, for example, when the disk is full
                    self._database.execute("ROLLBACK")
                if isinstance(error, QueueEdited) and self._seal is not None:
                    self._row_check, self._checked_version = RowCheck(self._seal), -1
                raise
            self._probe(f"after {name}")
            if told:
                # If another program hangs on the audit log, the next change copies these events from the queue.
                with suppress(QueueBusy):
                    self.copy_events_to_audit_log()
                self._probe(f"told {name}")

    def _begin(self) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise self._explain(error, self.folder / FILE_NAME) from error
            raise QueueBusy(f"{self.folder / FILE_NAME}: another program has been changing it for too long") from error

    def copy_events_to_audit_log(self) -> None:
        """Append all events that the audit log lacks, in order; if its disk is full, they stay in the queue."""
        try:
            self._copy_events()
        except OSError as error:
            raise self._explain(error, self.audit_log.path) from error

    def _copy_events(self) -> None:
        with self.audit_log.exclusive() as (last, append):
            done = int(last.body.get("change", 0)) if last is not None else 0
            newest = self.rows("SELECT coalesce(max(change), 0) FROM events")[0][0]
            if done > newest:
                raise AuditLogDamaged(
                    f"{self.audit_log.path}: has change {done}, but the queue ends at {newest}: an old copy of "
                    "queue.db was put back; restore the newest one"
                )
            rows = self.rows("SELECT * FROM events WHERE change > ? ORDER BY change", done)
            if rows:
                append([self._as_news(row) for row in rows])

    def _as_news(self, row: sqlite3.Row) -> News:
        """An event for the audit log; one that was not sealed with our key becomes a note that somebody wrote it."""
        told = (row["change"], row["at_ns"], row["kind"], row["body"])
        if self._seal is not None and not self._seal.fits(*told, row["seal"]):
            body = {
                "claimed": str(row["kind"])[:100],
                "reason": "an event without a valid seal was written into queue.db",
            }
            return "event_refused", body | {"change": row["change"]}, row["at_ns"]
        return row["kind"], parse_json(row["body"], where="queue: event") | {"change": row["change"]}, row["at_ns"]

    def _insert(self, statement: str, *values: Any) -> int:
        try:
            return int(self._database.execute(statement, values).lastrowid or 0)
        except sqlite3.DatabaseError as error:
            raise self._explain(error, self.folder / FILE_NAME) from error

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
        """Within a change: keep what a person signed, once; from then on it is the proof of their decision."""
        try:
            self.execute(
                "INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?)",
                *(statement.nonce, statement.kind, statement.person, request_id, statement.envelope, now_ns),
            )
        except sqlite3.IntegrityError:
            raise StatementRefused(f"{statement.kind} by {statement.person}: was acted on already") from None

    def set_lease(self, lease_id: str, state: str) -> None:
        self.execute("UPDATE leases SET state = ? WHERE id = ?", state, lease_id)
