"""A robot's durable record of the permits it was given, so that a restart forgets nothing."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opc_ros.deployment.audit_log import AuditHead, AuditLog, find_audit_log
from opc_ros.deployment.people import load_people
from opc_ros.deployment.statement import check_statement
from opc_ros.errors import DeploymentError

SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS episodes (
    permit_id TEXT NOT NULL, slot INTEGER NOT NULL, lease_id TEXT NOT NULL, episode_id TEXT NOT NULL UNIQUE,
    begun_ns INTEGER NOT NULL, outcome TEXT, safety_events INTEGER NOT NULL DEFAULT 0,
    recording TEXT NOT NULL DEFAULT '', PRIMARY KEY (permit_id, slot));
CREATE TABLE IF NOT EXISTS revoked (permit_id TEXT PRIMARY KEY);
"""


@dataclass(frozen=True, slots=True)
class RunEpisode:
    """One episode that a robot began under a permit."""

    slot: int  # index within its permit, from 0
    episode_id: str
    outcome: str | None  # "success", "failure" or "aborted"; None while running, or if the runner died during it
    safety_events: int
    recording: str = ""  # sha256 of its committed file, as the recorder reported it; empty: not reported


class RobotJournal:
    """A robot's durable memory: spent episodes, revocations and the latest time seen survive a crash."""

    def __init__(self, path: Path, now_ns: int) -> None:
        """Open the journal, or begin one at `now_ns`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._lock = threading.RLock()  # a revocation may arrive while an episode is being spent
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(SCHEMA)
            if "recording" not in {row[1] for row in self._database.execute("PRAGMA table_info(episodes)")}:
                self._database.execute("ALTER TABLE episodes ADD COLUMN recording TEXT NOT NULL DEFAULT ''")
            self._database.execute("INSERT OR IGNORE INTO facts VALUES ('begun_ns', ?)", (str(now_ns),))
        except sqlite3.Error as error:
            raise DeploymentError(f"{path}: not a robot's journal: {error}") from error

    @property
    def begun_ns(self) -> int:
        """When the journal was begun; an older permit may have been spent in a journal that was deleted."""
        return self._fact("begun_ns")

    @property
    def latest_ns(self) -> int:
        """The latest time this robot has seen."""
        return self._fact("latest_ns")

    @property
    def revocation_serial(self) -> int:
        return self._fact("revocation_serial")

    def begin_anew_if_unused(self, now_ns: int) -> None:
        """A journal made while the clock ran ahead begins once the clock is right, unless a permit has been seen."""
        if now_ns < self.begun_ns and self.latest_ns == 0:
            self._set("begun_ns", now_ns)

    def see_moment(self, now_ns: int) -> None:
        if now_ns > self.latest_ns:
            self._set("latest_ns", now_ns)

    def accept_earlier_clock(self, now_ns: int) -> None:
        """Start over after a person corrected a clock that ran ahead; permits from before no longer count."""
        with self._transaction():
            self._set("begun_ns", now_ns)
            self._set("latest_ns", now_ns)
            self._database.execute("INSERT OR IGNORE INTO revoked SELECT DISTINCT permit_id FROM episodes")

    def spend(self, permit_id: str, lease_id: str, episode_id: str, budget: int, now_ns: int) -> int | None:
        """Permanently take the next slot of a permit's budget; None if none is left."""
        with self._transaction():
            slot = self.spent(permit_id)
            if slot >= budget:
                return None
            self._database.execute(
                "INSERT INTO episodes (permit_id, slot, lease_id, episode_id, begun_ns) VALUES (?, ?, ?, ?, ?)",
                (permit_id, slot, lease_id, episode_id.format(slot=slot), now_ns),
            )
            return slot

    def spent(self, permit_id: str) -> int:
        """How many episodes of a permit have begun."""
        row = self._database.execute("SELECT count(*) FROM episodes WHERE permit_id = ?", (permit_id,)).fetchone()
        return int(row[0])

    def finish(self, permit_id: str, slot: int, outcome: str, safety_events: int) -> None:
        self._database.execute(
            "UPDATE episodes SET outcome = ?, safety_events = ? WHERE permit_id = ? AND slot = ? AND outcome IS NULL",
            (outcome, safety_events, permit_id, slot),
        )

    def note_recording(self, episode_id: str, digest: str) -> None:
        self._database.execute("UPDATE episodes SET recording = ? WHERE episode_id = ?", (digest, episode_id))

    def break_off_unfinished(self) -> int:
        """After a restart: mark episodes during which the runner died as aborted, and return how many."""
        cursor = self._database.execute("UPDATE episodes SET outcome = 'aborted' WHERE outcome IS NULL")
        return cursor.rowcount

    def episodes_of(self, lease_id: str) -> tuple[RunEpisode, ...]:
        rows = self._database.execute(
            "SELECT slot, episode_id, outcome, safety_events, recording FROM episodes WHERE lease_id = ? ORDER BY slot",
            (lease_id,),
        )
        return tuple(RunEpisode(*row) for row in rows)

    def revoke(self, permit_ids: Iterable[str], serial: int | None = None) -> None:
        with self._transaction():
            self._database.executemany("INSERT OR IGNORE INTO revoked VALUES (?)", [(name,) for name in permit_ids])
            if serial is not None:
                self._set("revocation_serial", serial)

    def is_revoked(self, permit_id: str) -> bool:
        row = self._database.execute("SELECT 1 FROM revoked WHERE permit_id = ?", (permit_id,)).fetchone()
        return row is not None

    def remember_audit_head(self, head: AuditHead) -> None:
        """Keep the longest audit log head seen, as a witness."""
        if head.entries > self.audit_witness().entries:
            self._set("ledger", f"{head.entries}:{head.hash}")

    def audit_witness(self) -> AuditHead:
        row = self._database.execute("SELECT value FROM facts WHERE name = 'ledger'").fetchone()
        if row is None:
            return AuditHead()
        entries, _, digest = str(row[0]).partition(":")
        return AuditHead(int(entries), digest)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _fact(self, name: str) -> int:
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def _set(self, name: str, value: int | str) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, str(value)))


def read_audit_witness(path: Path) -> AuditHead:
    """The head of the scheduler's audit log that a robot's journal has kept."""
    if not path.is_file():
        raise DeploymentError(f"{path}: no such file, expected a robot's journal.db")
    journal = RobotJournal(path, 0)
    try:
        return journal.audit_witness()
    finally:
        journal.close()


def accept_clock_on_robot(path: Path, keys: Path, envelope: str, now_ns: int) -> None:
    """Accept a robot's clock as correct on a person's signed statement, which the robot's audit log keeps."""
    if not path.is_file():
        raise DeploymentError(f"{path}: no such file, expected a robot's journal.db")
    statement = check_statement(envelope, ("accept_clock",), load_people(keys), now_ns, lambda nonce, until: True)
    if not statement.body.reason.strip():
        raise DeploymentError("accept-clock: give a reason")
    journal = RobotJournal(path, now_ns)
    journal.accept_earlier_clock(now_ns)
    journal.close()
    AuditLog(find_audit_log(path.parent)).append(
        "clock_accepted",
        {"person": statement.person, "reason": statement.body.reason, "statement": json.loads(envelope)},
        now_ns,
    )
