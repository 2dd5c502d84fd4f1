"""Writers killed at random moments, and what the store must still hold afterwards.

Run many with `python -m tests.store.crashes --kills 200`.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import select
import signal
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from opc_ros.episode import Episode, EpisodeHeader
from opc_ros.errors import StoreError
from opc_ros.store import open_store, recover, verify
from tests.store.grasps import SUCCESS, make_episode

LONGEST_S = 0.08  # several episodes

ROUND = 20  # kills

FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class CrashOutcome:
    """What was found after the last kill."""

    kills: int
    acknowledged: int  # commits that returned
    lost: tuple[str, ...]  # of the acknowledged ones: missing or not what was committed
    unacknowledged: int  # in the store although their commit never returned: complete, but not acknowledged
    quarantined: int
    killed_within: dict[str, int]  # how often a kill left which kind of file
    problems: tuple[str, ...]  # from `verify` after `recover`


class CrashingWriter:
    """A process that commits episodes as fast as it can, until it is killed."""

    def __init__(self, root: Path, robot: str, generation: int, pattern: Episode) -> None:
        self.robot = robot
        self.generation = generation
        self.reading, writing = os.pipe()
        self._process: BaseProcess = FORK.Process(
            target=_write_forever, args=(root, robot, generation, pattern, writing), daemon=True
        )
        self._process.start()
        os.close(writing)

    def wait_until_writing(self, deadline_s: float = 30.0) -> bytes:
        """The first byte says that it has begun its first episode."""
        ready, _, _ = select.select([self.reading], [], [], deadline_s)
        assert ready, f"writer {self.robot} has not begun within {deadline_s} s"
        return os.read(self.reading, 1)

    def kill(self) -> list[tuple[str, str]]:
        """Kill with SIGKILL; returns (id, sha256) of each commit that had returned."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        with os.fdopen(self.reading, "rb") as pipe:
            lines = pipe.read().decode().splitlines()
        return [(line.split()[0], line.split()[1]) for line in lines if line]


def _write_forever(root: Path, robot: str, generation: int, pattern: Episode, acknowledge: int) -> None:
    store = open_store(root)
    os.write(acknowledge, b"\n")
    number = 0
    while True:
        episode_id = f"{robot}-{generation}-{number}"
        writer = store.begin(EpisodeHeader(episode_id, robot, "scripted", pattern.started_ns))
        for step in pattern.steps:
            writer.add_step(step)
        committed = writer.commit(SUCCESS)
        os.write(acknowledge, f"{committed.id} {committed.file_sha256}\n".encode())
        number += 1
        if number % 3 == 0:  # so that kills also hit a catalogue and a snapshot while they are written
            with contextlib.suppress(StoreError):  # an episode of another writer may be half removed at this moment
                store.take_snapshot()


def crash_writers(root: Path, *, kills: int, robots: int, seed: int, image_size: int = 472) -> CrashOutcome:
    """Kill one of several writers at a time, recover while others continue, start it again; at the end check all."""
    rng = random.Random(seed)
    store = open_store(root, create=True)
    pattern = make_episode(image_size=image_size)
    names = [f"robot{number}" for number in range(robots)]
    writers = {name: CrashingWriter(root, name, 0, pattern) for name in names}
    acknowledged: list[tuple[str, str]] = []
    left: dict[str, int] = {}
    for count in range(kills):
        victim = writers[rng.choice(names)]
        victim.wait_until_writing()
        time.sleep(rng.uniform(0.0, LONGEST_S))  # the random moment; nothing is waited for
        acknowledged += victim.kill()
        for suffix in _remains(root, victim.robot, victim.generation):
            left[suffix] = left.get(suffix, 0) + 1
        if rng.random() < 0.5:
            recover(store, settle_s=60.0, is_quick=True)
        writers[victim.robot] = CrashingWriter(root, victim.robot, count + 1, pattern)
    for writer in writers.values():
        writer.wait_until_writing()
        acknowledged += writer.kill()
    recover(store, settle_s=0.0)
    found = {committed.id: committed.file_sha256 for committed in store.episodes()}
    lost = [name for name, sha in acknowledged if found.get(name) != sha]
    return CrashOutcome(
        kills=kills + robots,
        acknowledged=len(acknowledged),
        lost=tuple(lost),
        unacknowledged=len(set(found) - {name for name, _ in acknowledged}),
        quarantined=len(store.quarantined()[0]),
        killed_within=left,
        problems=verify(store, is_decoding=True).problems,
    )


def _remains(root: Path, robot: str, generation: int) -> list[str]:
    """Which uncommitted files the killed writer left."""
    folder = root / "episodes" / robot / "1970-01-01"
    names = {path.name for path in folder.glob(f"{robot}-{generation}-*")}
    parts = [name.partition(".")[2] for name in names if name.endswith(".part")]
    alone = [name for name in names if name.endswith(".mcap") and name.replace(".mcap", ".json") not in names]
    return parts + ["mcap without sidecar"] * len(alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--robots", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seed, done = arguments.seed, 0
    while done < arguments.kills:  # in rounds, because looking through a store takes longer the more it holds
        with tempfile.TemporaryDirectory(prefix="crashes_") as folder:
            kills = min(ROUND - arguments.robots, arguments.kills - done)
            outcome = crash_writers(Path(folder) / "store", kills=kills, robots=arguments.robots, seed=seed)
        done += outcome.kills
        seed += 1
        print(f"{done} kills; this round: {outcome}", flush=True)


if __name__ == "__main__":
    main()
