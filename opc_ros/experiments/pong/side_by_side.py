"""Trains several variants at once, on all available cores: a few checkpoints of each in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_ros.experiments.pong.emulator import make_starts
from opc_ros.experiments.pong.playing import open_games
from opc_ros.experiments.pong.training import PongRun, Schedule
from opc_ros.experiments.pong.variants import Variant
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.compute import limit_threads_here
from opc_ros.progress import Report, ignore_progress
from opc_ros.workers import work_through

_TURNS = 12  # in which each run is trained, so that all end at about the same time


@dataclass(frozen=True, slots=True)
class Training:
    """Everything a process needs to resume a variant's run; what has been trained is in the folder."""

    variant: Variant
    schedule: Schedule
    games: int
    starts: int  # number of starts for points
    seed: int  # of the starts
    out: Path

    def open(self) -> PongRun:
        starts = make_starts(self.starts, self.seed)
        return PongRun(self.variant, self.schedule, open_games(self.games), starts, self.out)


def train_side_by_side(
    trainings: Sequence[Training], workers: int, report: Report = ignore_progress
) -> list[list[Candidate]]:
    """Every run's checkpoints; the number of workers only changes the time it takes."""
    for training in trainings:
        training.out.mkdir(parents=True, exist_ok=True)
    total = sum(training.schedule.decisions for training in trainings)
    done = dict.fromkeys(trainings, 0)
    for training, (decisions, _) in work_through(
        trainings, _take_turn, workers=workers, prepare=prepare_worker, then=_go_on
    ):
        done[training] = decisions
        report(sum(done.values()), total, training.variant.name)
    report(total, total)
    return [training.open().candidates() for training in trainings]


def prepare_worker() -> None:
    """Networks this small lose more from sharing cores than they gain."""
    limit_threads_here(1)


def _take_turn(training: Training) -> tuple[int, bool]:
    """Decisions made, and whether the run is complete."""
    run = training.open()
    for _ in range(math.ceil(training.schedule.checkpoints / _TURNS)):
        if not run.is_over:
            run.reach_next()
    return run.decisions, run.is_over


def _go_on(training: Training, reached: tuple[int, bool]) -> Sequence[Training]:
    return () if reached[1] else (training,)
