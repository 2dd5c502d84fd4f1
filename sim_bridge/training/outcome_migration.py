"""Carries outcomes that were measured under a candidate's version-1 id over to its new id, if they still apply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from opc_ros.errors import EvaluationError
from sim_bridge.training.true_success import OutcomeFile, Trial
from sim_bridge.worlds import find_world

# The search that `opc evaluate` used before manifests stated one, and that migrated manifests state.
_MEASURED_WITH = {"samples": 64, "elites": 6, "rounds": 3, "seed": 0}


def migrate_outcomes(folder: Path, renamed: Mapping[str, str]) -> list[Path]:
    """Write each file of a renamed candidate again; the old files stay. Returns the old ones that were carried over."""
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
            continue  # for a world or a horizon that no longer exists
        file = OutcomeFile(folder, trial)
        file.append({seed: outcome for seed, outcome in outcomes.items() if seed not in file.outcomes})
        carried.append(path)
    return carried


def _digest_version1(world: str) -> str:
    """The digest from when there was only one arm, which worlds did not name."""
    spec = find_world(world)
    return hashlib.sha256(repr(spec).replace(f", arm={spec.arm!r}", "").encode()).hexdigest()[:16]


def _read_version1(path: Path) -> tuple[dict[str, object], dict[int, bool]]:
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    try:
        header = json.loads(first)
        pairs = (line.split() for line in lines[:-1])
        return header, {int(seed): outcome == "1" for seed, outcome in pairs}
    except ValueError as error:
        raise EvaluationError(f"{path}: is not a file of outcomes: {error}") from error
