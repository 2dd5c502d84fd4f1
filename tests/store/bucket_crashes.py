"""Recorders of a store in a bucket, killed at random moments, and what bucket and spools contain afterwards.

Run many with `python -m tests.store.bucket_crashes --kills 200`; it starts the S3 server of `s3_server`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from opc_ros.store import open_store, recover, verify
from opc_ros.store.bucket_store import SPOOL_VARIABLE, BucketStore
from tests.store.grasps import make_episode
from tests.store.killing import KilledProcess
from tests.store.s3_server import BUCKET, CREDENTIALS, run_server

LONGEST_S = 0.4  # several episodes and their uploads


@dataclass(frozen=True)
class BucketCrashOutcome:
    """What was found after the last kill."""

    kills: int
    acknowledged: int  # commits that returned
    in_bucket_at_kill: int  # of these, sent before their recorder was killed
    lost: tuple[str, ...]  # of the acknowledged ones: not in the bucket after the spools were sent
    unacknowledged: int
    problems: tuple[str, ...]  # from `verify`, by another machine


def write_forever(location: str, spool: str, robot: str, generation: int, told: str) -> None:
    """Runs in a process of its own, until it is killed."""
    os.environ[SPOOL_VARIABLE] = spool
    store = open_store(location)
    recover(store, settle_s=0.0, is_quick=True)
    with open(told, "ab", buffering=0) as file:
        file.write(b"begun\n")
        number = 0
        while True:
            committed = store.append(make_episode(f"{robot}-{generation}-{number}", robot=robot, image_size=16))
            file.write(f"{committed.id} {committed.file_sha256}\n".encode())
            number += 1


class Recorder:
    """One robot's machine: its spool outlives its processes."""

    def __init__(self, location: str, folder: Path, robot: str) -> None:
        self.spool = folder / f"{robot}.spool"
        self._generation = 0
        self._process = KilledProcess(write_forever, (location, str(self.spool), robot), folder / f"{robot}.told")

    def start(self) -> None:
        """Returns once it is recording."""
        self._process.start(self._generation)
        self._generation += 1

    def kill(self) -> None:
        self._process.kill()

    def acknowledged(self) -> dict[str, str]:
        lines = [line.split() for line in self._process.lines() if line.count(" ") == 1]
        return {name: sha for name, sha in lines if len(sha) == 64}


def crash_recorders(address: str, folder: Path, *, kills: int, robots: int, seed: int) -> BucketCrashOutcome:
    """Kill one of several recorders at a time and start it again; at the end send what the spools hold, and check."""
    rng = random.Random(seed)
    location = f"s3://{BUCKET}/crashes-{seed}"
    moment = threading.Event()
    with mock.patch.dict(os.environ, {**CREDENTIALS, "AWS_ENDPOINT_URL": address}):
        with mock.patch.dict(os.environ, {SPOOL_VARIABLE: str(folder / "reader")}):
            reader = open_store(location, create=True)
        recorders = [Recorder(location, folder, f"robot{number}") for number in range(robots)]
        for recorder in recorders:
            recorder.start()
        for _ in range(kills):
            victim = rng.choice(recorders)
            moment.wait(rng.uniform(0.0, LONGEST_S))  # the random moment; nothing is waited for
            victim.kill()
            victim.start()
        for recorder in recorders:
            recorder.kill()
        acknowledged = {name: sha for recorder in recorders for name, sha in recorder.acknowledged().items()}
        sent = len(set(reader.episode_ids()) & acknowledged.keys())
        for recorder in recorders:
            with mock.patch.dict(os.environ, {SPOOL_VARIABLE: str(recorder.spool)}):
                last = open_store(location)
            assert isinstance(last, BucketStore)
            recover(last, settle_s=0.0)
            last.sender.send()
        found = {committed.id: committed.file_sha256 for committed in reader.episodes()}
        return BucketCrashOutcome(
            kills=kills + robots,
            acknowledged=len(acknowledged),
            in_bucket_at_kill=sent,
            lost=tuple(name for name, sha in acknowledged.items() if found.get(name) != sha),
            unacknowledged=len(found.keys() - acknowledged.keys()),
            problems=verify(reader, is_decoding=True).problems,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--robots", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with run_server() as address, tempfile.TemporaryDirectory() as folder:
        print(
            crash_recorders(address, Path(folder), kills=arguments.kills, robots=arguments.robots, seed=arguments.seed)
        )


if __name__ == "__main__":
    main()
