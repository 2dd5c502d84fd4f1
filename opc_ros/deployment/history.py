"""Results from before this deployment: how earlier candidates did on this lab's robots."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from opc_ros.deployment.decision import RealResult
from opc_ros.documents import read_bytes
from opc_ros.errors import DeploymentError

FILE_NAME = "history.csv"  # in the deployment's folder
COLUMNS = ("candidate", "successes", "episodes")


def read_history(path: Path) -> dict[str, RealResult]:
    """Results by candidate id; a lab without a history has no such file."""
    return parse_history(read_bytes(path, error=DeploymentError), path) if path.is_file() else {}


def parse_history(data: bytes, path: Path) -> dict[str, RealResult]:
    """Parse results by candidate id from a file's bytes."""
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DeploymentError(f"{path}: cannot be read: {error}") from error
    found: dict[str, RealResult] = {}
    for line, row in enumerate(rows, start=2):
        try:
            candidate_id, result = row["candidate"], RealResult(int(row["successes"]), int(row["episodes"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DeploymentError(f"{path}, line {line}: expected columns {', '.join(COLUMNS)}") from error
        if not candidate_id or not 0 <= result.successes <= result.trials:
            raise DeploymentError(
                f"{path}, line {line}: {result.successes} successes in {result.trials} episodes of {candidate_id!r}, "
                "expected a candidate's id and no more successes than episodes"
            )
        found = add_results(found, {candidate_id: result})
    return found


def write_history(path: Path, results: Mapping[str, RealResult]) -> None:
    """Write the file that `read_history` reads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows((name, result.successes, result.trials) for name, result in sorted(results.items()))


def add_results(first: Mapping[str, RealResult], second: Mapping[str, RealResult]) -> dict[str, RealResult]:
    """The sum of both, by candidate."""
    none = RealResult(0, 0)
    return {
        name: RealResult(
            first.get(name, none).successes + second.get(name, none).successes,
            first.get(name, none).trials + second.get(name, none).trials,
        )
        for name in {**first, **second}
    }
