"""True success of a candidate in a world, and the file that keeps each episode's outcome."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opc_ros.errors import EvaluationError
from opc_ros.grasp import MAX_STEPS
from sim_bridge.world import WorldSpec
from sim_bridge.worlds import find_world

FORMAT_VERSION = 2
FIRST_SEED = 1_000_000  # far from the seeds used for collecting data
# Increase it whenever the twin's arithmetic changes, even in the last bit: contacts magnify that. 1: the kinematics
# before Pinocchio's; 2: since.
TWIN_REVISION = 2


def world_digest(spec: WorldSpec) -> str:
    """sha256 over the world and the properties of its arm; how the arm is reached over ROS does not affect outcomes."""
    bare = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec) if field.name != "arm"}
    arm = {part: getattr(spec.arm, part) for part in ("model", "body", "tool", "workspace", "start")}
    return hashlib.sha256(repr((bare, arm)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Trial:
    """Which candidate is tried, and where; its id covers how it searches its actions."""

    candidate_id: str
    world: str
    image_size: int  # of the twin's images
    twin_revision: int = TWIN_REVISION

    def header(self) -> dict[str, object]:
        """Everything that affects an outcome, including the world's description: an edited world is a new one."""
        return {
            "format_version": FORMAT_VERSION,
            "candidate": self.candidate_id,
            "world": self.world,
            "world_digest": world_digest(find_world(self.world)),
            "image_size": self.image_size,
            "max_steps": MAX_STEPS,
            "twin_revision": self.twin_revision,
        }

    @property
    def file_name(self) -> str:
        digest = hashlib.sha256(json.dumps(self.header(), sort_keys=True).encode()).hexdigest()
        return f"{self.candidate_id[:12]}-{self.world}-{digest[:8]}.txt"


@dataclass(frozen=True, slots=True)
class TrueSuccess:
    """How often a candidate succeeded, with a Wilson interval."""

    successes: int
    episodes: int
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.successes / self.episodes


def summarise(outcomes: Iterable[bool], confidence: float = 0.95) -> TrueSuccess:
    """Share of successes and its Wilson score interval."""
    from scipy.stats import binomtest

    flags = list(outcomes)
    if not flags:
        raise EvaluationError("no episode was played, expected at least one")
    interval = binomtest(sum(flags), len(flags)).proportion_ci(confidence_level=confidence, method="wilson")
    return TrueSuccess(sum(flags), len(flags), float(interval.low), float(interval.high))


class OutcomeFile:
    """Outcomes by seed, one line each, appended as they come; a line truncated by a crash is ignored."""

    def __init__(self, folder: Path, trial: Trial) -> None:
        self._path = folder / trial.file_name
        self._header = json.dumps(trial.header(), sort_keys=True)
        self.outcomes: dict[int, bool] = {}  # by seed
        if self._path.exists():
            self._read()

    def append(self, outcomes: dict[int, bool]) -> None:
        """Add outcomes of new seeds."""
        lines = [f"{seed} {int(is_success)}\n" for seed, is_success in sorted(outcomes.items())]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self._path.exists()
        with self._path.open("a", encoding="utf-8") as file:
            file.write((f"{self._header}\n" if is_new else "") + "".join(lines))
        self.outcomes.update(outcomes)

    def _read(self) -> None:
        header, self.outcomes = read_outcome_file(self._path)
        if header != self._header:
            raise EvaluationError(f"{self._path}: its first line is of another measurement; remove the file")
        whole, newline, cut_off = self._path.read_text(encoding="utf-8").rpartition("\n")
        if cut_off:
            self._path.write_text(whole + newline, encoding="utf-8")


def read_outcome_file(path: Path) -> tuple[str, dict[int, bool]]:
    """The first line, and every outcome on a complete line."""
    header, *lines = path.read_text(encoding="utf-8").split("\n")
    outcomes = {}
    for number, line in enumerate(lines[:-1], start=2):
        seed, _, outcome = line.partition(" ")
        if not seed.isdigit() or outcome not in ("0", "1"):
            raise EvaluationError(f"{path}, line {number}: got {line[:40]!r}, expected a seed and 0 or 1")
        outcomes[int(seed)] = outcome == "1"
    return header, outcomes
