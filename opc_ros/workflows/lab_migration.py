"""Upgrades the folders of an earlier version's lab; what has to change is copied first, so that nothing is lost."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.queue_reader import FILE_NAME, FORMAT
from opc_ros.errors import DeploymentError, OpcError
from opc_ros.policies.migration import find_old_candidates, migrate_candidates
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.store import open_store
from opc_ros.workflows.lab_status import LabFolders

QUEUE_KEPT = "queue.before-migration.db"


@dataclass(frozen=True, slots=True)
class MigrationLine:
    """What was found in one folder, and what was or has to be done."""

    what: str
    state: Literal["as it is", "migrated", "to migrate", "to do", "failed"]
    detail: str


def migrate_lab(folders: LabFolders, *, is_trial: bool = False) -> list[MigrationLine]:
    """Check or upgrade each folder; a trial only says what would be done. One failure does not stop the others."""
    lines: list[MigrationLine] = []
    renamed: dict[str, str] = {}
    parts: tuple[tuple[str, Path, Callable[[], list[MigrationLine]]], ...] = (
        ("store", folders.store, lambda: _look_at_store(folders.store)),
        ("candidates", folders.candidates, lambda: _migrate_registry(folders.candidates, renamed, is_trial)),
        ("deployment", folders.deployment, lambda: _migrate_deployment(folders.deployment, is_trial)),
    )
    for what, path, migrate in parts:
        if not path.is_dir():
            lines.append(MigrationLine(what, "as it is", f"{path}: not there"))
            continue
        try:
            lines += migrate()
        except (OpcError, OSError, sqlite3.Error) as error:
            lines.append(MigrationLine(what, "failed", str(error)))
    return lines


def _look_at_store(path: Path) -> list[MigrationLine]:
    with open_store(path) as store:
        damaged: list[Exception] = []
        episodes = sum(1 for _ in store.episodes(on_damage=damaged.append))
    if damaged:
        return [MigrationLine("store", "failed", f"{len(damaged)} episodes cannot be read; run `opc store verify`")]
    return [MigrationLine("store", "as it is", f"{episodes} episodes open; new ones are kept by day beside them")]


def _migrate_registry(path: Path, renamed: dict[str, str], is_trial: bool) -> list[MigrationLine]:
    folders = CandidateRegistry(path).folders()
    old = find_old_candidates(folders)
    if is_trial or not old:
        state: Literal["to migrate", "as it is"] = "to migrate" if old else "as it is"
        return [
            MigrationLine("candidates", state, f"{len(old)} of {len(folders)} have manifests of an earlier version")
        ]
    done = migrate_candidates(old)
    renamed.update({one.old_id: one.new_id for one in done})
    kept = "their old manifests are kept beside the new ones; ids changed, so score again"
    return [
        MigrationLine("candidates", "migrated", f"{len(done)} of {len(folders)}: {kept}"),
        *(
            MigrationLine("candidates", "migrated", f"{one.old_id[:12]} -> {one.new_id[:12]}  {one.folder}")
            for one in done
        ),
    ]


def _migrate_deployment(path: Path, is_trial: bool) -> list[MigrationLine]:
    folder, lines = DeploymentFolder(path), []
    if (path / FILE_NAME).exists():
        lines += _migrate_queue(folder, is_trial)
    if folder.audit_log.exists():
        report = check_audit_log(folder.audit_log, load_trusted_keys(folder.keys))
        if report.is_whole:
            lines.append(MigrationLine("audit log", "as it is", f"{report.head.entries} entries, whole and signed"))
        else:
            lines.append(MigrationLine("audit log", "failed", report.problems[0]))
    return lines


def _migrate_queue(folder: DeploymentFolder, is_trial: bool) -> list[MigrationLine]:
    path, kept = folder.path / FILE_NAME, _free_name(folder.path / QUEUE_KEPT)
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        found = database.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
        if found is None:
            raise DeploymentError(f"{path}: does not state its format: damaged, or not an opc_ros queue")
        is_old = found != (str(FORMAT),) or not _has_statements(database)
        unsigned = _find_unsigned(database)
    if not is_old:
        line = MigrationLine("queue", "as it is", "requests and results open")
    elif is_trial:
        line = MigrationLine("queue", "to migrate", f"is of an earlier version; will be kept as {kept.name}")
    else:
        _copy_database(path, kept)
        with folder.open():
            pass  # opening it upgrades it
        line = MigrationLine("queue", "migrated", f"upgraded; the original: {kept}")
    return [line, *(MigrationLine("queue", "to do", text) for text in unsigned)]


def _has_statements(database: sqlite3.Connection) -> bool:
    found = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'statements'").fetchone()
    return found is not None


def _find_unsigned(database: sqlite3.Connection) -> list[str]:
    """Open requests that nobody signed."""
    signed = set()
    if _has_statements(database):
        signed = {request_id for (request_id,) in database.execute("SELECT request_id FROM statements")}
    rows = database.execute("SELECT id, name, state, candidate_id FROM requests WHERE state IN ('waiting', 'queued')")
    return [
        f"request {request_id} for {name} is {state} as {candidate_id[:12]}: nobody signed it, and ids changed; "
        "reject it and ask again"
        for request_id, name, state, candidate_id in rows
        if request_id not in signed
    ]


def _free_name(path: Path) -> Path:
    """A name that is not taken, so that copies kept by an earlier migration are not overwritten."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], numbered) if not os.path.lexists(each))


def _copy_database(source: Path, target: Path) -> None:
    """Copy through SQLite, to include what is still in its write-ahead log."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
