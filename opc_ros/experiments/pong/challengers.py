"""Decision 14's scores that need only Q, on Pong: `python -m opc_ros.experiments.pong.challengers --help`."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.agreement_intervals import agree
from opc_ros.experiments.score_variants import score_by_q
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.scoring.engines import NoEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import open_store


def score_level(folder: Path, level: str) -> tuple[dict[str, float], int]:
    """Spearman of each score at one stickiness, and the number of candidates, from what `opc reproduce pong` kept."""
    with (folder / f"success-{level}.csv").open(encoding="utf-8", newline="") as file:
        success = {row["candidate"]: float(row["success"]) for row in csv.DictReader(file)}
    candidates = [c for c in CandidateRegistry(folder / "candidates").find_each(())[0] if c.id in success]
    with open_store(folder / f"validation-{level}") as store, QCache(folder / "q.sqlite") as q_cache:
        snapshot = store.take_snapshot()
        source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
        scored = score_candidates(source, candidates, q_cache, NoEngine())
    true = np.array([success[candidate.id] for candidate in scored.candidates])
    found = score_by_q(np.asarray(scored.q), scored.lengths, scored.success)
    return {name: agree(values, true)[1] for name, values in found.items()}, len(scored.candidates)


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where `opc reproduce pong` has worked, as reproduced/pong-10")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what rule_of_choice reads")
    arguments = parser.parse_args(argv)
    names = sorted(path.name.removeprefix("validation-") for path in arguments.folder.glob("validation-*"))
    if not names:
        raise ScoreError(f"{arguments.folder}: has no validation-* folder; run `opc reproduce pong` first")
    levels = {}
    for name in names:
        levels[f"Pong {name}"], count = score_level(arguments.folder, name)
        print(f"{name}: {count} candidates")
    print("\n| score | " + " | ".join(levels) + " |\n|---|" + "---|" * len(levels))
    for score in next(iter(levels.values())):
        print(f"| {score} | " + " | ".join(f"{found[score]:.2f}" for found in levels.values()) + " |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"levels": levels}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
