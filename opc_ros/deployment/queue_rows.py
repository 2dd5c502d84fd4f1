"""Rows of the scheduler's database as values."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opc_ros.deployment.permit import Rung
from opc_ros.documents import parse_json
from opc_ros.errors import DeploymentError

SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, candidate_id TEXT NOT NULL, name TEXT NOT NULL,
    path TEXT NOT NULL, score REAL NOT NULL, ranking_id TEXT NOT NULL, robots TEXT NOT NULL, episodes INTEGER NOT NULL,
    priority INTEGER NOT NULL, requested_by TEXT NOT NULL, created_ns INTEGER NOT NULL, state TEXT NOT NULL,
    rung TEXT NOT NULL, is_exploration INTEGER NOT NULL, approval TEXT NOT NULL DEFAULT '',
    approved_by TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL, identity TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS leases (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL,
    candidate_id TEXT NOT NULL, robot TEXT NOT NULL, rung TEXT NOT NULL, episodes INTEGER NOT NULL,
    state TEXT NOT NULL, permit_id TEXT NOT NULL, permit TEXT NOT NULL, granted_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS one_lease_per_robot ON leases (robot)
    WHERE state IN ('granted', 'running', 'revoking');
CREATE TABLE IF NOT EXISTS results (
    episode_id TEXT PRIMARY KEY, lease_id TEXT NOT NULL, request_id TEXT NOT NULL, candidate_id TEXT NOT NULL,
    robot TEXT NOT NULL, rung TEXT NOT NULL, success INTEGER, safety_events INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    recording TEXT NOT NULL DEFAULT 'not asked');
CREATE INDEX IF NOT EXISTS results_pending ON results (recording) WHERE recording = 'pending';
CREATE INDEX IF NOT EXISTS results_of_request ON results (request_id, rung);
CREATE TABLE IF NOT EXISTS robots (
    name TEXT PRIMARY KEY, state TEXT NOT NULL DEFAULT 'offline', since_ns INTEGER NOT NULL DEFAULT 0, halted_by TEXT
    NOT NULL DEFAULT '', since_rest INTEGER NOT NULL DEFAULT 0, rest_until_ns INTEGER NOT NULL DEFAULT 0,
    serving TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS champions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, candidate_id TEXT NOT NULL, score REAL NOT NULL, at_ns INTEGER NOT NULL,
    is_withdrawn INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS revoked (permit_id TEXT PRIMARY KEY, until_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS statements (
    nonce TEXT PRIMARY KEY, kind TEXT NOT NULL, person TEXT NOT NULL, request_id TEXT NOT NULL,
    envelope TEXT NOT NULL, at_ns INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS statements_of_request ON statements (request_id);
CREATE TABLE IF NOT EXISTS events (
    change INTEGER PRIMARY KEY AUTOINCREMENT, at_ns INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    seal TEXT NOT NULL DEFAULT '');
CREATE VIEW IF NOT EXISTS counted AS
    SELECT episode_id, lease_id, request_id, candidate_id, robot, rung, safety_events, at_ns, recording,
        CASE WHEN recording IN ('committed', 'not asked') THEN success END AS success FROM results;
"""
# What queues of format 1 lack; their results counted without anybody asking for recordings.
TO_FORMAT_2 = "ALTER TABLE results ADD COLUMN recording TEXT NOT NULL DEFAULT 'not asked'"
# Columns added since the first version; an older queue gets them when it is opened.
NEW_COLUMNS = (("requests", "identity"), ("events", "seal"))

OPEN_LEASE_STATES = ("granted", "running", "revoking")


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate's request for robot time.

    Its state starts as "waiting" (for a person), "queued" or "refused" (by the gate), and ends as "done" or "aborted".
    A person may turn "waiting" into "queued" or "rejected", and "refused" into "queued".
    """

    seq: int
    id: str
    candidate_id: str
    name: str
    path: str
    score: float
    ranking_id: str
    robots: tuple[str, ...]  # empty: any robot
    episodes: int  # at most, at full speed
    priority: int
    requested_by: str
    created_ns: int
    state: str
    rung: Rung
    is_exploration: bool
    approval: str  # "", "approve" or "override"
    approved_by: str
    reason: str
    identity: str = ""  # how to recognise its policy again, as JSON


@dataclass(frozen=True, slots=True)
class Lease:
    """A robot leased for some episodes.

    Its state goes from "granted" through "running" to "done". It may also end as "refused" (by the robot), as "lost"
    (no heartbeat, or out of time; "settled" once the robot has reported from its journal), or as "revoked", after being
    "revoking" until the robot confirms.
    """

    seq: int
    id: str
    request_id: str
    candidate_id: str
    robot: str
    rung: Rung
    episodes: int
    state: str
    permit_id: str
    permit: str  # signed, as text
    granted_ns: int
    expires_ns: int


@dataclass(frozen=True, slots=True)
class RobotRow:
    """What the scheduler knows about one arm."""

    name: str
    state: str  # "ready", "not ready" (says the robot: stopped or in a fault) or "offline"
    since_ns: int
    halted_by: str  # empty: not halted
    since_rest: int
    rest_until_ns: int
    serving: str  # candidate id: the one that runs there, otherwise the champion


@dataclass(frozen=True, slots=True)
class RungTally:
    """Results of the episodes of one request on one rung, or of one candidate."""

    successes: int = 0
    trials: int = 0  # episodes whose outcome counts
    broken: int = 0  # episodes that count as broken: aborted, lost, or without a recording
    safety_events: int = 0
    outstanding: int = 0  # episodes leased but not yet reported, or with an unconfirmed recording


@contextmanager
def _readable(row: sqlite3.Row) -> Iterator[None]:
    """Turn a row that cannot be read back into a one-line error instead of a traceback."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise DeploymentError(f"queue.db: damaged: row {row['id']!r:.60}: {error}") from error


def to_request(row: sqlite3.Row) -> Request:
    with _readable(row):
        values = dict(row)
        values["robots"] = tuple(parse_json(values["robots"], where="queue: robots", error=DeploymentError))
        values["rung"] = Rung(values["rung"])
        values["is_exploration"] = bool(values["is_exploration"])
        return Request(**values)


def to_lease(row: sqlite3.Row) -> Lease:
    with _readable(row):
        return Lease(**{**dict(row), "rung": Rung(row["rung"])})


def to_robot(row: sqlite3.Row) -> RobotRow:
    return RobotRow(**dict(row))
