"""`opc store pack --drop` killed at random moments while a writer commits, and what the store must hold afterwards.

Run many with `python -m tests.store.pack_crashes --kills 200`.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from opc_ros.store import open_store, recover, verify
from opc_ros.store.packing import pack
from tests.store.crashes import FORK, CrashingWriter
from tests.store.grasps import make_episode

LONGEST_S = 0.06  # several shards
SHARD_BYTES = 40_000  # a few episodes each

ROUND = 40  # kills


@dataclass(frozen=True)
class PackCrashOutcome:
    """What was found after the last kill."""

    kills: int
    acknowledged: int  # commits that returned
    lost: tuple[str, ...]  # of the acknowledged ones: missing or not what was committed
    dropped: int  # originals that were gone before the last, undisturbed run
    unfinished: int  # kills that left a shard without its name or without its index
    quarantined: int
    problems: tuple[str, ...]  # from `verify` after `recover`


class CrashingPacker:
    """A process that keeps packing and dropping until it is killed."""

    def __init__(self, root: Path) -> None:
        self._reading, writing = os.pipe()
        self._process: BaseProcess = FORK.Process(target=_pack_forever, args=(root, writing), daemon=True)
        self._process.start()
        os.close(writing)

    def wait_until_packing(self, deadline_s: float = 60.0) -> None:
        ready, _, _ = select.select([self._reading], [], [], deadline_s)
        assert ready, f"the packer has not begun within {deadline_s} s"

    def kill(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL, f"the packer ended by itself with {self._process.exitcode}"
        os.close(self._reading)


def _pack_forever(root: Path, told: int) -> None:
    store = open_store(root)
    os.write(told, b"\n")
    while True:
        pack(store, is_dropping=True, is_today_packed=True, shard_bytes=SHARD_BYTES)


def crash_packers(root: Path, *, kills: int, seed: int) -> PackCrashOutcome:
    """Kill the packer, start the next, recover beside it every other time; at the end pack and check everything."""
    rng = random.Random(seed)
    store = open_store(root, create=True)
    writer = CrashingWriter(root, "robot0", 0, make_episode(image_size=16))
    writer.wait_until_writing()
    unfinished = 0
    packer = CrashingPacker(root)
    for _ in range(kills):
        packer.wait_until_packing()
        time.sleep(rng.uniform(0.0, LONGEST_S))  # the random moment; nothing is waited for
        packer.kill()
        unfinished += _is_unfinished(root)
        packer = CrashingPacker(root)
        if rng.random() < 0.5:
            recover(store, settle_s=60.0, is_quick=True)
    packer.wait_until_packing()
    packer.kill()
    acknowledged = writer.kill()
    recover(store, settle_s=0.0)
    dropped = sum(1 for episode in store.episodes() if not store.layout.file(store.locate(episode.id)).exists())
    pack(store, is_dropping=True, is_today_packed=True, shard_bytes=SHARD_BYTES)
    found = {committed.id: committed.file_sha256 for committed in store.episodes()}
    return PackCrashOutcome(
        kills=kills + 2,
        acknowledged=len(acknowledged),
        lost=tuple(name for name, sha in acknowledged if found.get(name) != sha or store.read(name).id != name),
        dropped=dropped,
        unfinished=unfinished,
        quarantined=len(store.quarantined()[0]),
        problems=verify(store, is_decoding=True).problems,
    )


def _is_unfinished(root: Path) -> bool:
    shards = root / "shards"
    names = {path.name for path in shards.rglob("*.*")}
    return any(name.endswith(".part") or name.replace(".mcap", ".json") not in names for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to make the stores (default: the system's temporary folder)")
    arguments = parser.parse_args()
    seed, done = arguments.seed, 0
    while done < arguments.kills:
        with tempfile.TemporaryDirectory(prefix="pack_crashes_", dir=arguments.folder) as folder:
            kills = min(ROUND, arguments.kills - done)
            outcome = crash_packers(Path(folder) / "store", kills=kills, seed=seed)
        done += outcome.kills
        seed += 1
        print(f"{done} kills; this round: {outcome}", flush=True)


if __name__ == "__main__":
    main()
