"""Rebuild a queue from its audit log after its file was damaged or lost."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.event_seal import EventSeal, Told
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.queue_reader import FILE_NAME, FORMAT
from opc_ros.deployment.queue_rows import SCHEMA
from opc_ros.deployment.revoking import revoke_permit
from opc_ros.deployment.row_check import RowCheck
from opc_ros.documents import parse_json
from opc_ros.durable import sync_folder
from opc_ros.errors import DeploymentError, SchedulerBusy

ALL = range(1, 2**62)
FINAL = ("done", "aborted", "rejected", "refused")
SERIALS_APART = 1000  # more than a queue can have counted without recording it
WITHOUT_TERMS = "restored from an audit log that does not contain its terms: submit it again"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restored queue contains, and where the damaged file was moved to."""

    events: int
    requests: int
    results: int
    waiting: tuple[str, ...]  # requests that were in progress; a person has to let each continue
    lost: tuple[str, ...]  # leases that were open; their robots are asked what they ran
    kept: Path | None


@dataclass(slots=True)
class _Rows:
    """What the events say about requests, leases and robots; the row check derives everything else from the events."""

    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    robots: set[str] = field(default_factory=set)
    epoch: int = 0
    serial: int = 0
    latest_ns: int = 0

    def follow(self, kind: str, body: dict[str, Any], at_ns: int) -> None:
        self.latest_ns = max(self.latest_ns, at_ns)
        if "robot" in body and kind != "halt":
            self.robots.add(body["robot"])
        if kind == "request":
            self._on_request(body, at_ns)
        elif kind == "permit":
            names = ("request_id", "candidate_id", "robot", "rung", "episodes", "permit_id", "expires_ns")
            terms = {name: body[name] for name in names} | {"permit": body.get("permit", ""), "granted_ns": at_ns}
            self.leases[body["lease_id"]] = terms | {"state": "granted"}
        elif kind in ("lease_ended", "lease_lost", "lease_settled"):
            self.leases[body["lease_id"]]["state"] = {"lease_lost": "lost", "lease_settled": "settled"}.get(
                kind, body.get("state", "done")
            )
        elif kind == "scheduler_started":
            self.epoch = max(self.epoch, int(body["epoch"]))
        elif kind in ("permit_revoked", "halt"):
            self.serial += 1
        else:
            self._follow_request(kind, body)

    def _on_request(self, body: dict[str, Any], at_ns: int) -> None:
        terms = body.get("terms") or {}
        self.requests[body["request_id"]] = {
            "candidate_id": body["candidate_id"],
            "name": terms.get("name", body["candidate_id"][:12]),
            "path": terms.get("path", ""),
            "score": terms.get("score", 0.0),
            "ranking_id": body.get("ranking_id", ""),
            "robots": json.dumps(terms.get("robots", [])),
            "episodes": terms.get("episodes", 0),
            "priority": terms.get("priority", 0),
            "requested_by": body.get("requested_by", ""),
            "created_ns": at_ns,
            "state": body.get("state", "waiting") if terms else "refused",
            "rung": body.get("rung", "twin"),
            "is_exploration": int(bool(body.get("is_exploration"))),
            "reason": "; ".join(body.get("reasons", ())) if terms else WITHOUT_TERMS,
        }

    def _follow_request(self, kind: str, body: dict[str, Any]) -> None:
        request = self.requests.get(body.get("request_id", ""))
        if request is None or request["reason"] == WITHOUT_TERMS:
            return
        ends = {"finished": "done", "aborted": "aborted", "reject": "rejected"}
        if kind in ends:
            request |= {"state": ends[kind], "reason": body.get("reason", kind)}
        elif kind == "climbed":
            request["rung"] = body["to"]
        elif kind in ("approve", "override"):
            request["state"] = "queued"
        elif kind == "admitted":
            request["is_exploration"] = 0


def restore_queue(folder: DeploymentFolder, now_ns: int) -> Restored:
    """Replace the damaged queue, which is kept beside the new one; nothing is leased before people have looked.

    Results, champions, halts and revoked permits come from the sealed lines. Requests that were in progress wait for a
    person. Leases that were open count as lost: their permits are revoked, and their robots' journals tell what ran.
    """
    signer = folder.signer()
    with _alone(folder.path):
        report = check_audit_log(folder.audit_log, load_trusted_keys(folder.keys))
        if report.problems:
            raise DeploymentError(f"{folder.audit_log}: {report.problems[0]}; restore it from a copy first")
        seal = EventSeal(signer)
        told = seal.read_log(folder.audit_log, ALL)
        if not told:
            raise DeploymentError(f"{folder.audit_log}: contains no changes, so there is nothing to restore from")
        rows = _Rows()
        for change in sorted(told):
            at_ns, kind, body = told[change]
            try:
                rows.follow(kind, parse_json(body, where="audit log"), at_ns)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise DeploymentError(f"{folder.audit_log}: change {change} ({kind}) cannot be followed") from error
        waiting = tuple(key for key, request in rows.requests.items() if request["state"] not in FINAL)
        for key in waiting:
            rows.requests[key] |= {"state": "waiting", "reason": "restored from the audit log: approve or reject it"}
        new = folder.path / f"{FILE_NAME}.new"
        new.unlink(missing_ok=True)
        _write(new, rows, told, seal)
        kept = _swap(folder.path / FILE_NAME, new, now_ns)
        return _settle(folder, seal, now_ns, waiting, kept, len(told))


def _settle(
    folder: DeploymentFolder, seal: EventSeal, now_ns: int, waiting: tuple[str, ...], kept: Path | None, events: int
) -> Restored:
    with folder.open() as (queue, _):
        with queue.change("restore", max(now_ns, queue.fact("latest_ns"))) as tell:
            RowCheck(seal).correct(queue)
            lost = tuple(queue.open_leases())
            for lease in lost:
                queue.set_lease(lease.id, "lost")
                revoke_permit(queue, tell, lease, "the queue was restored")
                body = {"lease_id": lease.id, "robot": lease.robot}
                tell("lease_lost", body | {"reason": "the queue was restored from the audit log"})
            results = int(queue.rows("SELECT count(*) FROM results")[0][0])
            kept_as = kept.name if kept is not None else ""
            tell("queue_restored", {"events": events, "results": results, "waiting": waiting, "kept": kept_as})
        requests = len(queue.requests())
    return Restored(events, requests, results, waiting, tuple(lease.id for lease in lost), kept)


def _write(path: Path, rows: _Rows, told: dict[int, Told], seal: EventSeal) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(SCHEMA)
        database.execute("BEGIN")
        facts = {"format": FORMAT, "epoch": rows.epoch, "latest_ns": rows.latest_ns}
        facts["revocation_serial"] = rows.serial + SERIALS_APART
        database.executemany("INSERT INTO facts VALUES (?, ?)", [(name, str(value)) for name, value in facts.items()])
        for change in sorted(told):
            values = (change, *told[change], seal.of(change, *told[change]))
            database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", values)
        for table, made in (("requests", rows.requests), ("leases", rows.leases)):
            for key, values_of in made.items():
                names = ", ".join(("id", *values_of))
                marks = ", ".join("?" * (len(values_of) + 1))
                database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", (key, *values_of.values()))
        database.executemany(
            "INSERT OR IGNORE INTO robots (name) VALUES (?)", [(name,) for name in sorted(rows.robots)]
        )
        database.execute("COMMIT")


def _swap(path: Path, new: Path, now_ns: int) -> Path | None:
    """Move the damaged file aside, with the files that SQLite keeps beside it."""
    kept = None
    for suffix in ("", "-wal", "-shm"):
        old = path.with_name(path.name + suffix)
        if old.exists():
            aside = old.with_name(f"{path.name}.damaged-{now_ns}{suffix}")
            os.replace(old, aside)
            kept = kept or aside
    os.replace(new, path)
    sync_folder(path.parent)
    return kept


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Make sure that no scheduler runs meanwhile."""
    with (folder / "scheduler.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise SchedulerBusy(f"{folder}: process {file.read().strip()} schedules here; stop it first") from None
        yield
