"""How fast twins collect, compared with a bare loop of the same physics and renderings; two processes, two sizes."""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from opc_ros.playing import record_episode
from opc_ros.store import Store, open_store
from sim_bridge.behaviour import BehaviourPolicy, find_behaviour
from sim_bridge.collecting import CollectionPlan, collect
from sim_bridge.twin_arm import TwinArm
from sim_bridge.worlds import find_world

# Calls that change a simulation or take its image; everything else is bookkeeping that a bare loop does without.
BARE_CALLS = {
    "stepSimulation",
    "getCameraImage",
    "setJointMotorControl2",
    "resetJointState",
    "resetBasePositionAndOrientation",
    "resetBaseVelocity",
    "changeDynamics",
    "changeVisualShape",
    "restoreState",
}

WARM_UP = 4  # episodes


@dataclass
class CallLog:
    """Takes the place of a physics client and records the calls that matter."""

    client: Any
    calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
    images: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.client, name)
        if name not in BARE_CALLS:
            return function

        def call_and_log(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((function, args, kwargs))
            if name == "getCameraImage":
                self.images.append((function, args, kwargs))
            return function(*args, **kwargs)

        return call_and_log


@dataclass
class Seconds:
    """CPU time of this process, and wall clock time."""

    cpu: float = 0.0
    wall: float = 0.0

    def measure(self, work: Callable[[], object]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        self.cpu += time.process_time() - cpu
        self.wall += time.perf_counter() - wall


def set_clients(arm: TwinArm, client: Any, stage: Any) -> None:
    world = arm.world
    scene, images = world._scene, world._images
    world._client = scene._client = scene._painter._client = scene._surroundings._client = images._client = client
    images._stage = scene._surroundings._stage = scene._surroundings._painter._client = stage


def repeat(calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]) -> None:
    for function, args, kwargs in calls:
        function(*args, **kwargs)


def compare_with_bare_loop(episodes: int, size: int, store: Store) -> None:
    """Each episode is collected, played again to log its calls, and then these calls are made on their own."""
    arm = TwinArm(find_world("train"), image_size=size)
    policy = BehaviourPolicy(find_behaviour("scripted"), arm.world)
    client, stage = arm.world._client, arm.world._stage
    collecting, bare, rendering = Seconds(), Seconds(), Seconds()

    def play(seed: int, name: str) -> None:
        episode = record_episode(arm, policy, seed, episode_id=f"{name}-{size}-{seed}", object_set="train")
        store.append(episode)

    play(episodes, "warm-up")
    for seed in range(episodes):
        calls: list[Any] = []
        images: list[Any] = []
        set_clients(arm, CallLog(client, calls, images), CallLog(stage, calls, images))
        play(seed, "log")
        set_clients(arm, client, stage)
        collecting.measure(partial(play, seed, "timed"))
        bare.measure(partial(repeat, calls))
        rendering.measure(partial(repeat, images))
    arm.close()
    print(f"collecting at {size} px, of the rate of a bare loop: {bare.cpu / collecting.cpu:.0%} (goal 85 %)")
    print(f"episodes a minute at {size} px, one core: {60 * episodes / collecting.cpu:.0f} of CPU time, ", end="")
    print(f"{60 * episodes / collecting.wall:.0f} by the clock")
    print(f"share of rendering at {size} px: {rendering.cpu / collecting.cpu:.0%}")


def compare_processes(episodes: int, size: int) -> None:
    """From the first episodes to the last, so that starting processes does not count; one, two, two, one process."""
    plan = CollectionPlan("train", "scripted", image_size=size)
    seconds = {1: 0.0, 2: 0.0}
    for workers in (1, 2, 2, 1):
        stream = collect(plan, range(episodes), workers=workers)
        for _ in itertools.islice(stream, WARM_UP):
            pass
        began = time.perf_counter()
        for _ in stream:
            pass
        seconds[workers] += time.perf_counter() - began
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    print(f"two processes, of the rate of one at {size} px: {seconds[1] / seconds[2]:.2f} (goal 1.7), ", end="")
    print(f"at a load of {load:.1f} on {cores} cores" + (": too busy to tell" if load > cores + 1 else ""))


def main() -> None:
    """Print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(folder, create=True) as store:
        compare_with_bare_loop(arguments.episodes, 96, store)
        compare_with_bare_loop(max(arguments.episodes // 4, 2), 472, store)
    compare_processes(arguments.episodes, 96)


if __name__ == "__main__":
    main()
