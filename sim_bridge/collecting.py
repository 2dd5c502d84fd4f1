"""Collects episodes from twins, in this process or in several, always in the order of their seeds."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Protocol

import cv2

from opc_ros.arms.settings import ArmSettings
from opc_ros.episode import Episode
from opc_ros.errors import ArmLost, ConfigError
from opc_ros.playing import Player, record_episode
from opc_ros.workers import begin_worker
from sim_bridge.behaviour import BehaviourPolicy, find_behaviour
from sim_bridge.twin_arm import TwinArm
from sim_bridge.world import World
from sim_bridge.worlds import find_world

_AHEAD = 4  # episodes that each worker may be ahead of the consumer


class Plan(Protocol):
    """Who plays in which world; it is sent to worker processes, each of which creates the policy itself."""

    @property
    def world(self) -> str: ...

    @property
    def image_size(self) -> int: ...

    @property
    def robot(self) -> str: ...

    @property
    def arm(self) -> ArmSettings | None: ...

    def episode_id(self, seed: int) -> str:
        """Always the same for the same episode, so that a second run knows what it already has."""
        ...

    def make_policy(self, world: World) -> Player:
        """The player that chooses the actions in this world."""
        ...


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """Which behaviour policy plays in which world, and how large its images are."""

    world: str
    policy: str
    image_size: int = 472
    robot: str = "twin"
    arm: ArmSettings | None = None  # None: the LBR that every world has

    def __post_init__(self) -> None:
        check_scene(self.world, self.image_size)
        find_behaviour(self.policy)

    def episode_id(self, seed: int) -> str:
        arm = f"{self.arm.robot}-" if self.arm is not None else ""
        return f"{arm}{self.world}-{self.policy}-{self.image_size}px-{seed:08d}"

    def make_policy(self, world: World) -> Player:
        return BehaviourPolicy(find_behaviour(self.policy), world)


def check_scene(world: str, image_size: int) -> None:
    """Refuse a world that does not exist, and images too small to show anything."""
    find_world(world)
    if image_size < 8:
        raise ConfigError(f"image size is {image_size} pixels, expected at least 8")


class Collector:
    """One twin and one policy that play a plan's episodes."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        spec = find_world(plan.world)
        self._spec = spec if plan.arm is None else dataclasses.replace(spec, arm=plan.arm)
        self._arm = TwinArm(self._spec, name=plan.robot, image_size=plan.image_size)
        self._policy = plan.make_policy(self._arm.world)

    def play(self, seed: int) -> Episode:
        return record_episode(
            self._arm,
            self._policy,
            seed,
            episode_id=self._plan.episode_id(seed),
            object_set=self._spec.object_set,
        )

    def close(self) -> None:
        self._arm.close()


def collect(plan: Plan, seeds: Sequence[int], *, workers: int = 1) -> Iterator[Episode]:
    """The episodes of these seeds, in order; the number of workers only changes the time it takes."""
    if workers < 1:
        raise ConfigError(f"workers: got {workers}, expected at least 1")
    if workers == 1 or len(seeds) < 2:
        return _collect_here(plan, seeds)
    return _collect_in_processes(plan, seeds, min(workers, len(seeds)))


def _collect_here(plan: Plan, seeds: Sequence[int]) -> Iterator[Episode]:
    collector = Collector(plan)
    try:
        for seed in seeds:
            yield collector.play(seed)
    finally:
        collector.close()


def _collect_in_processes(plan: Plan, seeds: Sequence[int], workers: int) -> Iterator[Episode]:
    # Physics clients do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(plan,))
    waiting: deque[Future[Episode]] = deque()
    try:
        for seed in seeds:
            waiting.append(pool.submit(_play_in_worker, seed))
            if len(waiting) > workers * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise ArmLost("a worker process died; what was collected is kept, run again for the rest") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_collector: Collector | None = None  # one for each worker process


def _start_worker(plan: Plan) -> None:
    global _collector
    begin_worker()
    cv2.setNumThreads(1)  # parallelism comes from the workers
    _collector = Collector(plan)


def _play_in_worker(seed: int) -> Episode:
    assert _collector is not None
    return _collector.play(seed)
