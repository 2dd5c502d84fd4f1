"""Read-only view of the scheduler's queue: needs no key and writes nothing."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
from opc_ros.errors import DeploymentError, DiskFull

FILE_NAME = "queue.db"
FORMAT = 2
LOOK_PATIENCE_S = 5.0

_WAY_BACK = (
    "stop the scheduler and rebuild it from the audit log with `opc deploy restore`, or put back the newest good "
    "copy of queue.db without its -wal and -shm"
)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


class QueueReader:
    """Requests, leases, robots and results, as of now."""

    def __init__(self, folder: Path, database: sqlite3.Connection) -> None:
        self.folder = folder
        self._database = database
        self._database.row_factory = sqlite3.Row

    def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._explain(error, self.folder / FILE_NAME) from error

    def _explain(self, error: sqlite3.DatabaseError | OSError, path: Path) -> Exception:
        """A one-line error for disk problems and damaged files; any other error is a bug and returned as it is."""
        if isinstance(error, OSError):
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            told = error.strerror or str(error)
        else:
            is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            told = " ".join(str(error).split())
        if is_full:
            return DiskFull(f"{path}: {told}; no robot is leased until there is space")
        # Text that is not valid UTF-8 has no SQLite error code.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if isinstance(error, OSError) or code & 0xFF in _BROKEN:
            return DeploymentError(f"{path}: {told}; {_WAY_BACK}")
        return error

    def fact(self, name: str) -> int:
        found = self.rows("SELECT value FROM facts WHERE name = ?", name)
        return int(found[0][0]) if found else 0

    def requests(self, *states: str) -> list[Request]:
        marks = ", ".join("?" * len(states))
        where = f"WHERE state IN ({marks})" if states else ""
        return [to_request(row) for row in self.rows(f"SELECT * FROM requests {where} ORDER BY seq", *states)]

    def request(self, request_id: str) -> Request:
        found = self.rows("SELECT * FROM requests WHERE id = ?", request_id)
        if not found:
            raise DeploymentError(f"request {request_id!r}: no such request; `opc deploy status` lists them")
        return to_request(found[0])

    def has_nonce(self, nonce: str) -> bool:
        return bool(self.rows("SELECT 1 FROM statements WHERE nonce = ?", nonce))

    def envelopes(self, request_id: str) -> list[str]:
        """The statements people signed about a request, oldest first."""
        rows = self.rows("SELECT envelope FROM statements WHERE request_id = ? ORDER BY at_ns", request_id)
        return [str(row[0]) for row in rows]

    def open_leases(self) -> list[Lease]:
        marks = ", ".join("?" * len(OPEN_LEASE_STATES))
        found = self.rows(f"SELECT * FROM leases WHERE state IN ({marks}) ORDER BY seq", *OPEN_LEASE_STATES)
        return [to_lease(row) for row in found]

    def lost_leases(self) -> list[Lease]:
        """Lost leases whose robots have not reported yet what they ran."""
        return [to_lease(row) for row in self.rows("SELECT * FROM leases WHERE state = 'lost' ORDER BY seq")]

    def lease(self, lease_id: str) -> Lease | None:
        found = self.rows("SELECT * FROM leases WHERE id = ?", lease_id)
        return to_lease(found[0]) if found else None

    def robots(self) -> dict[str, RobotRow]:
        return {row["name"]: to_robot(row) for row in self.rows("SELECT * FROM robots ORDER BY name")}

    def tally(self, request: Request) -> RungTally:
        """What a request has done on its present rung."""
        done = self.rows(
            "SELECT coalesce(sum(success), 0), count(success),"
            " coalesce(sum(success IS NULL AND recording != 'pending'), 0), coalesce(sum(safety_events), 0),"
            " coalesce(sum(recording = 'pending'), 0) FROM counted WHERE request_id = ? AND rung = ?",
            request.id,
            request.rung,
        )[0]
        leased = self.rows(
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
        return RungTally(done[0], done[1], done[2] + lost[0], done[3], outstanding=leased[0] + done[4])

    def real_results(self, rungs: tuple[Rung, ...] = (Rung.REDUCED, Rung.FULL)) -> dict[str, RealResult]:
        """What each candidate has done on real arms, at reduced and full speed, over all its requests."""
        found = self.rows(
            "SELECT candidate_id, sum(success), count(success) FROM counted"
            f" WHERE rung IN ({', '.join('?' * len(rungs))}) AND success IS NOT NULL GROUP BY candidate_id",
            *rungs,
        )
        return {row[0]: RealResult(int(row[1]), int(row[2])) for row in found}

    def outcomes(self, candidate_id: str, rung: Rung = Rung.FULL) -> list[bool]:
        """Outcomes of one candidate on a rung, in the order they came."""
        found = self.rows(
            "SELECT success FROM counted WHERE candidate_id = ? AND rung = ? AND success IS NOT NULL"
            " ORDER BY at_ns, episode_id",
            candidate_id,
            rung,
        )
        return [bool(row[0]) for row in found]

    def recordings(self) -> dict[str, int]:
        """How many results with an outcome there are for each state of their recording."""
        found = self.rows("SELECT recording, count(*) FROM results WHERE success IS NOT NULL GROUP BY recording")
        return {str(row[0]): int(row[1]) for row in found}

    def champion(self) -> tuple[str, float] | None:
        """The present champion's id and score."""
        found = self.rows("SELECT candidate_id, score FROM champions WHERE is_withdrawn = 0 ORDER BY seq DESC LIMIT 1")
        return (found[0][0], found[0][1]) if found else None

    def check_whole(self) -> None:
        """Check that the file is intact and of a format that this program knows."""
        path = self.folder / FILE_NAME
        try:
            found = self.fact("format")
            (state,) = self.rows("PRAGMA integrity_check(1)")[0]
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise no_queue(path, error) from error
        if state != "ok":
            raise DeploymentError(f"{path}: damaged: {' '.join(state.split())}; {_WAY_BACK}")
        if found != FORMAT:
            remedy = "; `opc migrate` brings it up to date" if found < FORMAT else ""
            raise DeploymentError(f"{path}: format {found}, this program knows {FORMAT}{remedy}")


def no_queue(path: Path, error: Exception) -> DeploymentError:
    return DeploymentError(f"{path}: not a scheduler queue: {' '.join(str(error).split())}; {_WAY_BACK}")


@contextmanager
def look_into_queue(folder: Path) -> Iterator[QueueReader]:
    """Open a queue for reading, even from a read-only folder; a queue that does not exist yet reads as empty."""
    path = folder / FILE_NAME
    try:
        database = _connect(path)
    except (sqlite3.Error, OSError) as error:
        raise no_queue(path, error) from error
    try:
        reader = QueueReader(folder, database)
        reader.check_whole()
        yield reader
    finally:
        database.close()


def _connect(path: Path) -> sqlite3.Connection:
    if not path.exists():
        database = sqlite3.connect(":memory:")
        database.executescript(SCHEMA)
        database.execute("INSERT INTO facts VALUES ('format', ?)", (str(FORMAT),))
        return database
    # Without a -wal file nobody has it open; `immutable` keeps SQLite from creating one just to read.
    is_at_rest = not path.with_name(f"{path.name}-wal").exists()
    options = "mode=ro&immutable=1" if is_at_rest else "mode=ro"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=LOOK_PATIENCE_S)
