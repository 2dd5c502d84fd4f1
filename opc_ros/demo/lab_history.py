"""The lab's history: what scripted and earlier learned policies did on its arms before today."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from opc_ros.demo.candidates import choose_measured, read_candidates, spread
from opc_ros.demo.plan import DemoPlan
from opc_ros.demo.screen import Screen
from opc_ros.demo.truth import read_truth
from opc_ros.deployment.decision import RealResult
from opc_ros.episode import Episode
from opc_ros.errors import ArmError
from opc_ros.experiments.validation_sets import Budget, Part, plan_sets
from opc_ros.policies.candidate import Candidate
from opc_ros.store import open_store
from opc_ros.workers import begin_worker

SCRIPTED_EPISODES = 40
MOST_ABANDONED = 8  # early policies that are scored beside the new ones; all of them play
PROCESSES = 2


@dataclass(frozen=True, slots=True)
class LabHistory:
    """Earlier candidates, and the results of their episodes."""

    candidates: tuple[Candidate, ...]
    results: dict[str, RealResult]  # by candidate id
    episodes: int  # played into the store
    successes: int
    measured: int  # candidates whose results are in the lab's log, from long ago

    def describe(self) -> str:
        return (
            f"{self.episodes} episodes, {self.successes} successes; the log has results of {len(self.candidates)}"
            f" earlier policies, {self.measured} of them checkpoints that were measured in 80 to 200 episodes each"
        )


def play_history(plan: DemoPlan, screen: Screen) -> LabHistory:
    """Play it into the store on all cores; in the same world as the arms', but without ROS."""
    if plan.earlier is None or not plan.history_episodes:
        return LabHistory((), {}, 0, 0, 0)
    early = read_candidates(plan.earlier)
    scored = {candidate.name: candidate.id for candidate in spread(early, MOST_ABANDONED)}
    measured, results = _read_log(plan)
    budget = Budget(SCRIPTED_EPISODES, max(2, plan.history_episodes), 2, 2)
    parts = [_shift(part, plan.seed) for part in plan_sets(plan.world, budget, early)[0].parts]
    episodes = successes = 0
    total = sum(len(part.seeds) for part in parts)
    with open_store(plan.store, create=True) as store:
        for part, played in _play_parts(parts):
            won = sum(episode.label.is_success is True for episode in played)
            for episode in played:
                store.append(episode)
            episodes, successes = episodes + len(played), successes + won
            if part.is_learned and part.label in scored:
                results[scored[part.label]] = RealResult(won, len(played))
            screen.waiting(f"{episodes} of {total} episodes of earlier days, {successes} successes")
    earlier = (*measured, *(candidate for candidate in early if candidate.id in scored.values()))
    return LabHistory(earlier, results, episodes, successes, len(measured))


def _read_log(plan: DemoPlan) -> tuple[list[Candidate], dict[str, RealResult]]:
    """Earlier checkpoints, with the results that `opc evaluate` counted for them in the same world."""
    known = read_truth(plan.truth)
    if not known:
        return [], {}
    measured = choose_measured(plan.zoo, plan.most_candidates, known)
    return measured, {candidate.id: RealResult(*known[candidate.name]) for candidate in measured}


def _shift(part: Part, seed: int) -> Part:
    """Shift seeds, so that every seed of the demo gives other scenes, and no scene occurs twice."""
    first = part.seeds[0] + (seed * len(part.seeds)) % 900
    return replace(part, seeds=range(first, first + len(part.seeds)))


def _play_parts(parts: list[Part]) -> Iterator[tuple[Part, list[Episode]]]:
    # Physics clients do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(PROCESSES, mp_context=context, initializer=begin_worker)
    try:
        yield from zip(parts, pool.map(_play_part, parts), strict=True)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _play_part(part: Part) -> list[Episode]:
    """Play some scenes; one in which the arm is led out of its reach is left out."""
    import cv2

    from opc_ros.policies.compute import limit_threads_here
    from sim_bridge.collecting import Collector

    cv2.setNumThreads(1)
    limit_threads_here(1)
    collector = Collector(part.plan)
    played = []
    try:
        for seed in part.seeds:
            try:
                played.append(collector.play(seed))
            except ArmError:
                continue
    finally:
        collector.close()
    return played
