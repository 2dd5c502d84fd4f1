"""The experiment as a whole: train, record, score, measure true success, and compare, at the scale of a budget."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opc_ros.errors import ConfigError
from opc_ros.experiments.pong.emulator import PongGame, make_starts
from opc_ros.experiments.pong.judging import METRICS, LevelResult, judge_level
from opc_ros.experiments.pong.playing import open_games
from opc_ros.experiments.pong.training import Schedule, TrainingRun
from opc_ros.experiments.pong.true_success import measure_wins, write_known_success
from opc_ros.experiments.pong.validation import record_points
from opc_ros.experiments.pong.variants import BEHAVIOUR, VARIANTS, Variant
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.compute import limit_threads_here
from opc_ros.progress import Report
from opc_ros.ranking.run import RankingOptions, ScoringRun
from opc_ros.ranking.store_run import StoreScoring, score_store
from opc_ros.scoring.engines import LocalEngine

# (R^2, Spearman) of each metric, by stickiness.
PUBLISHED: Mapping[float, Mapping[str, tuple[float, float]]] = {
    0.0: dict(zip(METRICS, ((0.05, -0.18), (0.09, -0.32), (0.04, -0.36), (0.50, 0.72), (0.36, 0.75)), strict=True)),
    0.1: dict(zip(METRICS, ((0.05, -0.16), (0.04, -0.29), (0.02, -0.32), (0.48, 0.73), (0.33, 0.67)), strict=True)),
    0.25: dict(zip(METRICS, ((0.07, -0.15), (0.01, -0.22), (0.00, -0.18), (0.33, 0.66), (0.16, 0.58)), strict=True)),
}
STICKINESS = tuple(PUBLISHED)
_TRAINING_STARTS, _TRUE_STARTS, _VALIDATION_STARTS = 11, 12, 13  # seeds

OpenReport = Callable[[str], AbstractContextManager[Report]]  # a progress bar of this title


@dataclass(frozen=True, slots=True)
class PongPlan:
    """How much is trained, played and recorded."""

    schedule: Schedule
    behaviour: Schedule
    points: int  # that decide each candidate's true success without stickiness; half as many with it
    recorded: int  # validation episodes at each stickiness
    training_starts: int = 200
    games: int = 16  # side by side
    stickiness: tuple[float, ...] = STICKINESS

    @classmethod
    def for_budget(cls, minutes: float, stickiness: tuple[float, ...] = STICKINESS) -> PongPlan:
        """What one core does in about this time, whatever this machine's cores do: sizes follow from the budget.

        Half goes into training, most of the rest into true success, a little into episodes and scores.
        """
        if not minutes >= 2:
            raise ConfigError(f"budget is {minutes:g} minutes, expected at least 2")
        decisions = int(min(300_000, 2_000 * minutes))
        policies = int(min(38, max(4, 1.3 * minutes)))
        explored = min(8_000, decisions // 3)
        return cls(
            schedule=Schedule(decisions=decisions, explored=explored),
            behaviour=Schedule(decisions=decisions, explored=explored, checkpoints=policies),
            points=int(min(3_000, max(16, 7 * minutes / 3))),
            recorded=policies * int(min(30, max(6, 19 * minutes / policies))),
            training_starts=int(min(200, max(20, 10 * minutes))),
            stickiness=stickiness,
        )

    def points_at(self, stickiness: float) -> int:
        return self.points // 2 if stickiness else self.points


@dataclass(frozen=True, slots=True)
class PongResult:
    """The whole experiment."""

    plan: PongPlan
    candidates_digest: str  # sha256 over the ids of all candidates
    levels: tuple[LevelResult, ...]


def run_pong(plan: PongPlan, out: Path, open_report: OpenReport, now: Callable[[], datetime.datetime]) -> PongResult:
    """Everything below `out`; what an earlier, interrupted call of the same plan did is not done again."""
    limit_threads_here(1)  # networks this small lose more by sharing cores than they gain
    games = open_games(plan.games)
    starts = make_starts(plan.training_starts, _TRAINING_STARTS)
    policies = _train((BEHAVIOUR,), plan.behaviour, games, starts, out / "behaviour", open_report)
    candidates = _train(VARIANTS, plan.schedule, games, starts, out / "candidates", open_report)
    return compare(plan, candidates, policies, games, out, open_report, now)


def compare(
    plan: PongPlan,
    candidates: Sequence[Candidate],
    policies: Sequence[Candidate],
    games: Sequence[PongGame],
    out: Path,
    open_report: OpenReport,
    now: Callable[[], datetime.datetime],
) -> PongResult:
    """Scores of the candidates below `out` against their true success, on episodes that the policies play."""
    all_starts = make_starts(plan.points, _TRUE_STARTS)
    recorded_starts = make_starts(plan.recorded, _VALIDATION_STARTS)
    levels = []
    for stickiness in plan.stickiness:
        name = f"sticky{100 * stickiness:02.0f}"
        with open_report(f"{name}: validation") as report:
            record_points(out / f"validation-{name}", games, policies, recorded_starts, stickiness, report)
        true_starts = all_starts[: plan.points_at(stickiness)]
        with open_report(f"{name}: true success") as report:
            wins = measure_wins(out / "outcomes.jsonl", games, candidates, true_starts, stickiness, report)
        write_known_success(out / f"success-{name}.csv", wins, len(true_starts))
        with open_report(f"{name}: scoring") as report:
            run = _score(out, name, report, now)
        levels.append(judge_level(stickiness, run, wins, len(true_starts)))
    digest = hashlib.sha256("\n".join(sorted(candidate.id for candidate in candidates)).encode()).hexdigest()
    return PongResult(plan, digest, tuple(levels))


def _train(
    variants: Sequence[Variant],
    schedule: Schedule,
    games: list[PongGame],
    starts: list[Any],
    folder: Path,
    open_report: OpenReport,
) -> list[Candidate]:
    folder.mkdir(parents=True, exist_ok=True)
    candidates: list[Candidate] = []
    for variant in variants:
        with open_report(f"train {variant.name}") as report:
            candidates += TrainingRun(variant, schedule, games, starts, folder).train(report)
    return candidates


def _score(out: Path, name: str, report: Report, now: Callable[[], datetime.datetime]) -> ScoringRun:
    """As `opc score` does it, with the same ledger for all levels."""
    request = StoreScoring(
        store=out / f"validation-{name}",
        registry=out / "candidates",
        out=out / f"scores-{name}",
        ledger=out / "q.sqlite",
        has_baselines=True,
        known_success=out / f"success-{name}.csv",
        options=RankingOptions(resamples=500),
    )
    return score_store(request, LocalEngine(), now=now, report_scoring=report)
