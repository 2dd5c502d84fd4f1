"""The whole experiment: train, record, score, measure true success, and compare, at the scale of a budget."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from opc_ros.errors import ConfigError
from opc_ros.experiments.pong.judging import METRICS, LevelResult, judge_level
from opc_ros.experiments.pong.side_by_side import Training, prepare_worker, train_side_by_side
from opc_ros.experiments.pong.training import Schedule
from opc_ros.experiments.pong.true_success import measure_wins, write_known_success
from opc_ros.experiments.pong.validation import record_points
from opc_ros.experiments.pong.variants import BEHAVIOUR, VARIANTS, Variant
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report
from opc_ros.scoring.engines import LocalEngine
from opc_ros.workflows.scoring_run import RankingOptions, ScoringRun
from opc_ros.workflows.store_scoring import StoreScoring, score_store

# (R^2, Spearman) of each metric, by stickiness.
PUBLISHED: Mapping[float, Mapping[str, tuple[float, float]]] = {
    0.0: dict(zip(METRICS, ((0.05, -0.18), (0.09, -0.32), (0.04, -0.36), (0.50, 0.72), (0.36, 0.75)), strict=True)),
    0.1: dict(zip(METRICS, ((0.05, -0.16), (0.04, -0.29), (0.02, -0.32), (0.48, 0.73), (0.33, 0.67)), strict=True)),
    0.25: dict(zip(METRICS, ((0.07, -0.15), (0.01, -0.22), (0.00, -0.18), (0.33, 0.66), (0.16, 0.58)), strict=True)),
}
STICKINESS = tuple(PUBLISHED)
_TRAINING_STARTS = 11  # a seed

OpenReport = Callable[[str], AbstractContextManager[Report]]  # for a progress bar with this title


@dataclass(frozen=True, slots=True)
class PongPlan:
    """How much is trained, played and recorded."""

    schedule: Schedule
    behaviour: Schedule
    points: int  # per candidate for its true success without stickiness; half as many with it
    recorded: int  # validation episodes of each policy at each stickiness
    training_starts: int = 200
    games: int = 16  # games in parallel
    stickiness: tuple[float, ...] = STICKINESS

    @classmethod
    def for_budget(cls, minutes: float, stickiness: tuple[float, ...] = STICKINESS) -> PongPlan:
        """The work that two typical cores do in about this time; it does not depend on this machine's cores.

        Two fifths go into training, two fifths into true success, and the rest into episodes and scores.
        """
        if not minutes >= 2:
            raise ConfigError(f"budget is {minutes:g} minutes, expected at least 2")
        decisions = int(min(500_000, 4_050 * minutes))
        policies = int(min(38, max(4, 0.81 * minutes)))
        explored = min(8_000, decisions // 3)
        return cls(
            schedule=Schedule(decisions=decisions, explored=explored),
            behaviour=Schedule(decisions=decisions, explored=explored, checkpoints=policies),
            points=int(min(3_000, max(16, 1.8 * minutes))),
            recorded=int(min(30, max(6, 24.3 * minutes / policies))),
            training_starts=int(min(200, max(20, 9 * minutes))),
            stickiness=stickiness,
        )

    def points_at(self, stickiness: float) -> int:
        return self.points // 2 if stickiness else self.points


@dataclass(frozen=True, slots=True)
class PongResult:
    """The results of the whole experiment."""

    plan: PongPlan
    candidates_digest: str  # sha256 over the ids of all candidates
    levels: tuple[LevelResult, ...]


def run_pong(
    plan: PongPlan, out: Path, open_report: OpenReport, now: Callable[[], datetime.datetime], *, workers: int = 1
) -> PongResult:
    """Everything is kept below `out`; work that an interrupted call of the same plan has finished is not repeated."""
    prepare_worker()
    behaviour = _training(plan, BEHAVIOUR, plan.behaviour, out / "behaviour")
    ranked = [_training(plan, variant, plan.schedule, out / "candidates") for variant in VARIANTS]
    with open_report("training") as report:
        policies, *trained = train_side_by_side([behaviour, *ranked], workers, report)
    candidates = [candidate for checkpoints in trained for candidate in checkpoints]
    return compare(plan, candidates, policies, out, open_report, now, workers=workers)


def compare(
    plan: PongPlan,
    candidates: Sequence[Candidate],
    policies: Sequence[Candidate],
    out: Path,
    open_report: OpenReport,
    now: Callable[[], datetime.datetime],
    *,
    workers: int = 1,
) -> PongResult:
    """Scores of the candidates below `out` against their true success, on episodes that the policies play."""
    with open_report("validation episodes") as report:
        stores = {level: out / f"validation-{_name(level)}" for level in plan.stickiness}
        record_points(stores, policies, plan.recorded, plan.games, workers=workers, report=report)
    with open_report("true success") as report:
        points = {level: plan.points_at(level) for level in plan.stickiness}
        wins = measure_wins(out / "outcomes.jsonl", candidates, points, plan.games, workers=workers, report=report)
    levels = []
    for level in plan.stickiness:
        write_known_success(out / f"success-{_name(level)}.csv", wins[level], points[level])
        with open_report(f"scoring, sticky {level:.0%}") as report:
            run = _score(out, _name(level), report, now)
        levels.append(judge_level(level, run, wins[level], points[level]))
    digest = hashlib.sha256("\n".join(sorted(candidate.id for candidate in candidates)).encode()).hexdigest()
    return PongResult(plan, digest, tuple(levels))


def _training(plan: PongPlan, variant: Variant, schedule: Schedule, folder: Path) -> Training:
    return Training(variant, schedule, plan.games, plan.training_starts, _TRAINING_STARTS, folder)


def _name(stickiness: float) -> str:
    return f"sticky{100 * stickiness:02.0f}"


def _score(out: Path, name: str, report: Report, now: Callable[[], datetime.datetime]) -> ScoringRun:
    """Score as `opc score` does, with one q_cache for all levels."""
    request = StoreScoring(
        store=out / f"validation-{name}",
        registry=out / "candidates",
        scores=out / f"scores-{name}",
        q_cache=out / "q.sqlite",
        has_baselines=True,
        known_success=out / f"success-{name}.csv",
        options=RankingOptions(resamples=500),
    )
    return score_store(request, LocalEngine(), now=now, report_scoring=report)
