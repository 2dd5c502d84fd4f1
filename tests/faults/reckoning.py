"""Afterwards: is every episode that began counted exactly once or named as broken, and is every counted one stored?"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.store import open_store, recover, verify


@dataclass(slots=True)
class Reckoning:
    """The findings; every list of errors must be empty."""

    begun: int = 0
    counted: int = 0
    broken: int = 0  # broken off, or the recording is missing; all named in the audit log
    unrecorded: int = 0  # of those, with an outcome but without a recording
    stored: int = 0
    wrongs: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        return not any(self.wrongs.values())


def reckon(folder: Path, robots: Sequence[str], heard: Mapping[str, int]) -> Reckoning:
    """`heard` has the number of times each episode's begin was received on the robots' topics."""
    begun = {name: outcome for robot in robots for name, outcome in _journal(folder / robot / "journal.db").items()}
    deployment = DeploymentFolder(folder / "deployment")
    with deployment.look() as queue:
        results = {
            row["episode_id"]: row["success"] if row["recording"] == "committed" else None
            for row in queue.rows("SELECT episode_id, success, recording FROM results")
        }
        unrecorded = queue.recordings().get("missing", 0)
    with open_store(folder / "store") as store:
        stored = {each.id: each.label.is_success for each in store.episodes()}
        recover(store, settle_s=0.0)  # what recorders that died or had no space left behind, as an operator would
        problems = verify(store).problems
    told = Counter(e.body["episode_id"] for e in read_audit_log(deployment.audit_log) if e.kind == "episode")
    counted = {name: bool(success) for name, success in results.items() if success is not None}
    report = check_audit_log(deployment.audit_log, load_trusted_keys(deployment.keys))
    wrongs = {
        "begun, and neither counted nor named as broken": sorted(begun.keys() - results.keys()),
        "counted or named, but no robot began it": sorted(results.keys() - begun.keys()),
        "told more or less than once in the audit log": sorted(name for name in results if told[name] != 1),
        "counted, but not in the store": sorted(counted.keys() - stored.keys()),
        "counted otherwise than the robot's journal has it": sorted(
            name for name, success in counted.items() if begun.get(name) != ("success" if success else "failure")
        ),
        "counted otherwise than it is labelled in the store": sorted(
            name for name, success in counted.items() if name in stored and stored[name] is not success
        ),
        "heard to begin more than once": sorted(name for name, times in heard.items() if times > 1),
        "heard to begin, but not in a robot's journal": sorted(heard.keys() - begun.keys()),
        "audit log": list(report.problems),
        "store": [str(problem) for problem in problems],
    }
    broken = len(results) - len(counted)
    return Reckoning(len(begun), len(counted), broken, unrecorded, len(counted.keys() & stored.keys()), wrongs)


def _journal(path: Path) -> dict[str, str | None]:
    database = sqlite3.connect(path)
    try:
        return dict(database.execute("SELECT episode_id, outcome FROM episodes").fetchall())
    finally:
        database.close()
