"""How often each candidate truly wins a point, measured once and kept."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_ros.errors import EvaluationError
from opc_ros.experiments.pong.emulator import make_starts
from opc_ros.experiments.pong.playing import make_policy, open_games, play_points
from opc_ros.experiments.pong.side_by_side import prepare_worker
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.workers import work_through

_STARTS, _LUCK = 12, 21  # seeds
Wins = dict[str, int]  # by candidate id


@dataclass(frozen=True, slots=True)
class _Trial:
    candidate: Candidate
    stickiness: float
    points: int
    games: int

    @property
    def key(self) -> tuple[str, float, int]:
        return self.candidate.id, self.stickiness, self.points


def measure_wins(
    path: Path,
    candidates: Sequence[Candidate],
    points: Mapping[float, int],
    games: int,
    *,
    workers: int = 1,
    report: Report = ignore_progress,
) -> dict[float, Wins]:
    """Points that each candidate's greedy policy wins, out of a given number at each stickiness.

    Points that the file already has are not played again.
    """
    known = _read(path)
    trials = [_Trial(one, stickiness, count, games) for stickiness, count in points.items() for one in candidates]
    missing = [trial for trial in trials if trial.key not in known]
    report(len(trials) - len(missing), len(trials))
    for done, (trial, wins) in enumerate(
        work_through(missing, _play, workers=workers, prepare=prepare_worker), start=len(trials) - len(missing) + 1
    ):
        known[trial.key] = wins
        line = {
            "candidate": trial.candidate.id,
            "stickiness": trial.stickiness,
            "episodes": trial.points,
            "wins": wins,
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        report(done, len(trials), f"sticky {trial.stickiness:.0%}, {trial.candidate.name}")
    return {
        stickiness: {one.id: known[one.id, stickiness, count] for one in candidates}
        for stickiness, count in points.items()
    }


def _play(trial: _Trial) -> int:
    starts = make_starts(trial.points, _STARTS)
    points = play_points(open_games(trial.games), make_policy(trial.candidate), starts, trial.stickiness, _LUCK)
    return sum(point.is_won for point in points)


def write_known_success(path: Path, wins: Wins, episodes: int) -> None:
    """The CSV file that a report reads true success from."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("candidate", "success", "episodes"))
        writer.writerows((candidate_id, won / episodes, episodes) for candidate_id, won in wins.items())


def _read(path: Path) -> dict[tuple[str, float, int], int]:
    """What was measured before; a last line that a crash truncated is dropped."""
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
