"""How often each candidate truly wins a point, measured once and kept."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opc_ros.errors import EvaluationError
from opc_ros.experiments.pong.emulator import PongGame
from opc_ros.experiments.pong.playing import make_policy, play_points
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress

_SEED = 21
Wins = dict[str, int]  # by candidate id


def measure_wins(
    path: Path,
    games: Sequence[PongGame],
    candidates: Sequence[Candidate],
    starts: Sequence[Any],
    stickiness: float,
    report: Report = ignore_progress,
) -> Wins:
    """Points that each candidate's greedy policy wins, one from each start; what the file knows is not played again."""
    known = _read(path)
    for done, candidate in enumerate(candidates):
        report(done, len(candidates), f"sticky {stickiness:.0%}, {candidate.name}")
        key = (candidate.id, stickiness, len(starts))
        if key in known:
            continue
        points = play_points(games, make_policy(candidate), starts, stickiness, _SEED)
        known[key] = sum(point.is_won for point in points)
        line = {"candidate": candidate.id, "stickiness": stickiness, "episodes": len(starts), "wins": known[key]}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    report(len(candidates), len(candidates), f"sticky {stickiness:.0%}")
    return {candidate.id: known[candidate.id, stickiness, len(starts)] for candidate in candidates}


def write_known_success(path: Path, wins: Wins, episodes: int) -> None:
    """The CSV file from which a report takes true success."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("candidate", "success", "episodes"))
        writer.writerows((candidate_id, won / episodes, episodes) for candidate_id, won in wins.items())


def _read(path: Path) -> dict[tuple[str, float, int], int]:
    """What was measured before; a last line that a crash cut off is dropped."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines[-1]:
        path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")
    known = {}
    for number, line in enumerate(lines[:-1], start=1):
        try:
            entry = json.loads(line)
            known[entry["candidate"], entry["stickiness"], entry["episodes"]] = int(entry["wins"])
        except (ValueError, KeyError, TypeError) as error:
            raise EvaluationError(
                f"{path}, line {number}: got {line[:40]!r}, expected an outcome; remove it"
            ) from error
    return known
