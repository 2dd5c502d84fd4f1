"""Packed episodes read in order, compared with `cat` of the same shards: from disk and from memory, alternating."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opc_ros.episode import EpisodeHeader
from opc_ros.store import Store, open_store
from opc_ros.store.layout import Place
from opc_ros.store.packing import pack
from tests.benchmarks.bench_store import make_episode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure (default: the current one)")
    parser.add_argument("--episodes", type=int, default=800, help="of some 1.3 MB")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench_shards_", dir=arguments.folder or Path.cwd()))
    try:
        with open_store(folder / "store", create=True) as store:
            fill(store, arguments.episodes)
            pack(store, is_dropping=True)
        measure(folder / "store", arguments.rounds)
    finally:
        shutil.rmtree(folder)


def fill(store: Store, count: int) -> None:
    """A few images are as good as many: no file system here notices that they repeat."""
    steps = [make_episode(number, 10).steps for number in range(8)]
    pattern = make_episode(0, 1)
    for number in range(count):
        writer = store.begin(EpisodeHeader(f"e{number:06d}", "bench", "scripted", pattern.started_ns))
        for step in steps[number % len(steps)]:
            writer.add_step(step)
        writer.commit(pattern.label)


def measure(root: Path, rounds: int) -> None:
    store = open_store(root)
    entries = store.take_snapshot().entries
    members = [(store.locate(entry.episode_id), entry.file_sha256) for entry in entries]
    shards = sorted((root / "shards").rglob("*.mcap"), key=first_place(store, members))
    size = sum(path.stat().st_size for path in shards)
    print(f"{len(entries)} episodes, {size / 1e6:.0f} MB in {len(shards)} shards; MB/s, medians of {rounds}")
    ways: dict[str, Callable[[], object]] = {
        "cat": lambda: subprocess.run(["cat", *shards], stdout=subprocess.DEVNULL, check=True),
        "bytes, digests checked": lambda: sum(len(store.contents.read(*one)) for one in members),
        "episodes for scoring": lambda: sum(1 for _ in store.read_each(entries)),
    }
    for is_cold in (True, False):
        taken: dict[str, list[float]] = {name: [] for name in ways}
        worked: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, read in ways.items():
                if is_cold:
                    forget(shards)
                begin, processor = time.perf_counter(), processor_s()
                read()
                taken[name].append(time.perf_counter() - begin)
                worked[name].append(processor_s() - processor)
        speeds = {name: size / statistics.median(times) / 1e6 for name, times in taken.items()}
        costs = {name: statistics.median(times) / size * 1e9 for name, times in worked.items()}
        print("from the disk:" if is_cold else "from memory:")
        for name, speed in speeds.items():
            print(f"  {name:<24} {speed:7.0f} MB/s, {speed / speeds['cat']:.2f} of cat; ", end="")
            print(f"{costs[name]:.2f} s of processor for each GB")


def first_place(store: Store, members: list[tuple[Place, str]]) -> Callable[[Path], int]:
    """So that `cat` takes shards in the order in which episodes are read."""
    places: dict[str, int] = {}
    for number, (place, sha256) in enumerate(members):
        found = store.contents.shards.find(place, sha256)
        assert found is not None
        places.setdefault(found.key.rpartition("/")[2], number)
    return lambda path: places[path.name]


def processor_s() -> float:
    """Of this process and of the children it has waited for."""
    return sum(os.times()[:4])


def forget(paths: list[Path]) -> None:
    """Make the kernel drop these files' pages, so that they are read from disk."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
