"""Measures how often candidates truly succeed in the twin, on all cores, never playing an episode twice."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2

from opc_ros.errors import ConfigError, EvaluationError
from opc_ros.playing import play_episode
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.compute import limit_threads_here
from opc_ros.policies.policy import Policy, load_policy
from opc_ros.progress import Report, ignore_progress
from opc_ros.workers import work_through
from sim_bridge.training.outcome_table import OutcomeTable, is_table, open_outcomes
from sim_bridge.training.true_success import FIRST_SEED, OutcomeFile, Trial, TrueSuccess, summarise
from sim_bridge.twin_arm import TwinArm
from sim_bridge.worlds import find_world

_SEEDS_AT_ONCE = 10  # between two entries in the outcome file


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """Which worlds, and how many episodes in each; the candidate itself says how actions are searched."""

    worlds: tuple[str, ...] = ("train", "test", "pseudo_real")
    episodes: int = 200
    first_seed: int = FIRST_SEED
    image_size: int = 0  # 0: the candidate's own image size
    allow_code: bool = False

    def __post_init__(self) -> None:
        for world in self.worlds:
            find_world(world)
        if self.episodes < 1:
            raise ConfigError(f"episodes: got {self.episodes}, expected at least 1")

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.episodes)

    def trial(self, candidate: Candidate, world: str) -> Trial:
        size = self.image_size or max(candidate.manifest.input.image_size)
        return Trial(candidate.id, world, size)


@dataclass(frozen=True, slots=True)
class _Task:
    folder: Path
    trial: Trial
    seeds: tuple[int, ...]
    allow_code: bool


def evaluate(
    candidates: Sequence[Candidate],
    plan: TrialPlan,
    cache: Path,
    *,
    workers: int = 1,
    report: Report = ignore_progress,
) -> dict[tuple[str, str], TrueSuccess]:
    """True success by candidate id and world; outcomes already in the cache are not played again."""
    if workers < 1:
        raise ConfigError(f"workers: got {workers}, expected at least 1")
    if is_table(cache):
        raise ConfigError(f"{cache}: is a packed table, which is only read; play into a folder and pack that")
    trials = [(candidate, plan.trial(candidate, world)) for candidate in candidates for world in plan.worlds]
    files = {trial: OutcomeFile(cache, trial) for _, trial in trials}
    tasks = list(_missing_tasks(trials, files, plan))
    total = len(trials) * plan.episodes
    done = total - sum(len(task.seeds) for task in tasks)
    report(done, total)
    for task, outcomes in work_through(tasks, _play, workers=workers, prepare=_start_worker):
        files[task.trial].append(outcomes)
        done += len(outcomes)
        report(done, total, task.trial.world)
    return {
        (trial.candidate_id, trial.world): summarise(files[trial].outcomes[seed] for seed in plan.seeds)
        for _, trial in trials
    }


def read_outcomes(candidates: Sequence[Candidate], plan: TrialPlan, cache: Path) -> dict[tuple[str, str], TrueSuccess]:
    """What the cache, a folder or a packed table, already has; nothing is played."""
    known = {}
    table = OutcomeTable(cache) if is_table(cache) else None
    for candidate in candidates:
        for world in plan.worlds:
            if outcomes := open_outcomes(cache, plan.trial(candidate, world), table):
                known[candidate.id, world] = summarise(outcomes.values())
    return known


def _missing_tasks(
    trials: Sequence[tuple[Candidate, Trial]], files: dict[Trial, OutcomeFile], plan: TrialPlan
) -> Iterator[_Task]:
    for candidate, trial in trials:
        missing = [seed for seed in plan.seeds if seed not in files[trial].outcomes]
        for start in range(0, len(missing), _SEEDS_AT_ONCE):
            yield _Task(candidate.folder, trial, tuple(missing[start : start + _SEEDS_AT_ONCE]), plan.allow_code)


def _start_worker() -> None:
    limit_threads_here(1)  # parallelism comes from the workers
    cv2.setNumThreads(1)
    gc.freeze()  # torch's and the twin's modules are never freed, so do not scan them over and over


class _Player:
    """The candidate and arm of the last task; the next task usually needs the same."""

    def __init__(self) -> None:
        self._policy: tuple[str, Policy] | None = None
        self._arm: tuple[tuple[str, int], TwinArm] | None = None

    def policy_for(self, task: _Task) -> Policy:
        if self._policy is None or self._policy[0] != task.trial.candidate_id:
            candidate = read_candidate(task.folder)
            if candidate.id != task.trial.candidate_id:
                raise EvaluationError(f"candidate {task.folder}: changed while it was being evaluated; run again")
            self._policy = (candidate.id, load_policy(candidate, allow_code=task.allow_code, device="cpu"))
        return self._policy[1]

    def arm_for(self, task: _Task) -> TwinArm:
        key = (task.trial.world, task.trial.image_size)
        if self._arm is None or self._arm[0] != key:
            if self._arm is not None:
                self._arm[1].close()
            self._arm = (key, TwinArm(find_world(task.trial.world), image_size=task.trial.image_size))
        return self._arm[1]


_player = _Player()  # one for each process


def _play(task: _Task) -> dict[int, bool]:
    policy, arm = _player.policy_for(task), _player.arm_for(task)
    return {seed: play_episode(arm, policy, seed) for seed in task.seeds}
