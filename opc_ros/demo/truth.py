"""True success of the shipped candidates, shown at the end of the demo and used for no decision."""

from __future__ import annotations

import csv
from pathlib import Path


def read_truth(path: Path | None) -> dict[str, tuple[int, int]]:
    """Successes and trials by name, from a table with those columns."""
    if path is None:
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: (int(row["successes"]), int(row["trials"])) for row in csv.DictReader(file)}
