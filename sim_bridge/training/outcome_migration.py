"""Outcomes measured under a candidate's version-1 id are carried over to its new id, where they still describe it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from opc_ros.errors import EvaluationError
from sim_bridge.training.true_success import OutcomeFile, Trial
from sim_bridge.worlds import find_world

# How `opc evaluate` searched before manifests said so, and what migrated manifests say.
_MEASURED_WITH = {"samples": 64, "elites": 6, "rounds": 3, "seed": 0}


def migrate_outcomes(folder: Path, renamed: Mapping[str, str]) -> list[Path]:
    """Write each file of a renamed candidate anew; the old files stay. Returns the old ones that were carried over."""
    carried = []
    for path in sorted(folder.glob("*.txt")):
        header, outcomes = _read_version1(path)
        old_id = str(header.get("candidate"))
        if header.get("format_version") != 1 or header.get("cem") != _MEASURED_WITH or old_id not in renamed:
            continue
        trial = Trial(renamed[old_id], str(header["world"]), int(str(header["image_size"])), twin_revision=1)
        if (
            header["world_digest"] != _digest_version1(trial.world)
            or header["max_steps"] != trial.header()["max_steps"]
        ):
            continue  # of a world or a horizon that is no more
        file = OutcomeFile(folder, trial)
        file.append({seed: outcome for seed, outcome in outcomes.items() if seed not in file.outcomes})
        carried.append(path)
    return carried


def _digest_version1(world: str) -> str:
    """As it was when there was one arm, and a world did not name it."""
    spec = find_world(world)
    return hashlib.sha256(repr(spec).replace(f", arm={spec.arm!r}", "").encode()).hexdigest()[:16]


def _read_version1(path: Path) -> tuple[dict[str, object], dict[int, bool]]:
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    try:
        header = json.loads(first)
        pairs = (line.split() for line in lines[:-1])
        return header, {int(seed): outcome == "1" for seed, outcome in pairs}
    except ValueError as error:
        raise EvaluationError(f"{path}: is no file of outcomes: {error}") from error
