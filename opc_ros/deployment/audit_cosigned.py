"""Heads of the audit log that robots cosigned with their results, so that a scheduler cannot rewrite what they saw."""

from __future__ import annotations

from pathlib import Path

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.people import People
from opc_ros.deployment.robot_results import open_result
from opc_ros.documents import canonical_json
from opc_ros.errors import OpcError


def check_cosigned(path: Path, people: People) -> tuple[dict[str, int], list[str]]:
    """How many heads of this log each robot has cosigned, and where a robot's cosigned head contradicts the log."""
    hashes: dict[int, str] = {0: ""}
    counts: dict[str, int] = {}
    problems = []
    for entry in read_audit_log(path):
        hashes[entry.n] = entry.hash
        if entry.kind != "robot_result":
            continue
        robot, lease_id = str(entry.body.get("robot")), str(entry.body.get("lease_id"))
        try:
            result = open_result(canonical_json(entry.body.get("result"), is_ascii=True), robot, lease_id, people)
        except OpcError as error:
            problems.append(f"entry {entry.n}: {error}")
            continue
        if hashes.get(result.witness.entries) != result.witness.hash:
            problems.append(
                f"entry {entry.n}: robot {robot} signed another entry {result.witness.entries}: the log was rewritten"
            )
        elif result.witness.entries:
            counts[robot] = counts.get(robot, 0) + 1
    return counts, problems
