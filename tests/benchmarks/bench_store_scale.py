"""The cost of a large store: polls, lists, counts, snapshots and a catalogue built from scratch.

The store is made by a fast writer: for each robot and day one tiny episode (one 8x8 image) goes through the product's
own file writer, and its bytes are turned into the other episodes of that day by inserting their ids, with checksums,
digests and sealed sidecars as a commit would leave them; nothing waits for the disk. Message definitions are written
without their comments, which would make up most of such a small file. Every file is a valid episode: `opc store verify`
says so.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
import os
import resource
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from opc_ros.episode import EpisodeHeader, Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.store import Selection, open_store, schemas
from opc_ros.store.commit import describe, encode_sidecar
from opc_ros.store.episode_writing import EpisodeFileWriter
from opc_ros.store.layout import JSON, MCAP, Home, StoreLayout, day_of
from opc_ros.store.packing import pack
from tests.benchmarks.bench_store import make_episode, measure_commit

DAY_NS = 86_400_000_000_000
FIRST_DAY_NS = 20_000 * DAY_NS
FULL_SCHEMA = schemas.schema
CHUNK = 6  # MCAP's opcode
STEP = GraspStep(
    Frame.from_image(np.zeros((8, 8, 3), dtype=np.uint8), 1), ToolState(0.5, 0.0, 0.3, 0.0, 0.08), GraspAction()
)
SUCCESS, FAILURE = (Label(value, LabelSource.EPISODE_END, "arm") for value in (True, False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--robots", type=int, default=10)
    parser.add_argument("--per-day", type=int, default=1000, help="episodes of a robot in a day")
    parser.add_argument("--folder", type=Path, help="where to make the store (default: a temporary folder here)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that make the store")
    parser.add_argument("--keep", action="store_true", help="leave the store, and use one that is there already")
    arguments = parser.parse_args()
    root = arguments.folder or Path(tempfile.mkdtemp(prefix="bench_scale_", dir=Path.cwd()))
    try:
        if not (root / "store.json").exists():
            begin = time.perf_counter()
            make_store(root, arguments.episodes, arguments.robots, arguments.per_day, arguments.workers)
            print(f"made {arguments.episodes} episodes in {time.perf_counter() - begin:.0f} s")
        measure(root, arguments.episodes, arguments.robots, arguments.per_day)
    finally:
        if not arguments.keep:
            shutil.rmtree(root)


def measure(root: Path, episodes: int, robots: int, per_day: int) -> None:
    shutil.rmtree(root / "catalogue", ignore_errors=True)
    shutil.rmtree(root / "snapshots", ignore_errors=True)
    (root / "snapshots").mkdir()
    cold = timed("catalogue from files", lambda: open_store(root).catalogue.refresh())
    print(f"  {episodes / cold:.0f} episodes a second of processor time (goal 20000)")
    time.sleep(2.5)  # until no folder is so recent that it has to be read again
    open_store(root).catalogue.refresh()
    store = open_store(root)
    timed("first look of a new process", store.catalogue.refresh)
    timed("poll, nothing new", store.catalogue.refresh, "goal 20 ms")
    timed("list page of 50", lambda: store.page(count=50), "goal 200 ms")
    timed("stats", store.statistics, "goal 200 ms")
    middle_ns = FIRST_DAY_NS + DAY_NS * max(1, episodes // robots // per_day // 2)
    some = Selection(robots=("robot-03",), since_ns=middle_ns, until_ns=middle_ns + DAY_NS)
    timed("selection of one robot's day", lambda: list(store.episodes(some)), "goal 200 ms")
    timed("find, first time", lambda: store.find(make_id(0, 0, 0)))
    timed("find", lambda: store.find(make_id(1, 0, per_day - 1)), "goal 200 ms")
    timed("snapshot of everything", store.take_snapshot, "goal 10 s")
    timed("snapshot id, nothing new", store.snapshot_id_now)
    for number in range(100):
        add_episode(root, robots - 1, max(0, episodes // robots // per_day - 1), per_day + number)
    timed("100 new episodes", store.catalogue.refresh, "goal 50 ms")
    for robot in range(max(1, episodes // 100 // per_day)):
        make_day(str(root), robot % robots, 3000 + robot // robots, min(per_day, max(1, episodes // 100)))
    timed("1 % more seen", store.catalogue.refresh)
    timed("snapshot of 1 % more", store.take_snapshot, "goal 1 s")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB (goal 500)")
    measure_commits(root)
    measure_shards(root)


def measure_shards(root: Path) -> None:
    """One robot's episodes packed, then read as scoring reads them, from files and from shards."""
    store = open_store(root)
    entries = store.take_snapshot(Selection(robots=("robot-00",))).entries
    files = timed(f"read {len(entries)} from files", lambda: sum(1 for _ in store.read_each(entries)))
    packing = timed("pack them", lambda: pack(store, robots=("robot-00",)))
    store = open_store(root)
    shards = timed("read them from shards", lambda: sum(1 for _ in store.read_each(entries)))
    timed("drop their files", lambda: pack(store, robots=("robot-00",), is_dropping=True))
    timed("look after dropping", store.catalogue.refresh)
    print(f"  packing {len(entries) / packing:.0f} episodes a second, from shards {files / shards:.2f} times as fast")


def measure_commits(root: Path) -> None:
    """begin, steps and commit at this size, compared with a bare writer of the same messages."""
    episodes = [replace(make_episode(number, 10), id=f"commit-{time.time_ns()}-{number}") for number in range(21)]
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        measure_commit(open_store(root), episodes, Path(folder))


def timed(name: str, action: Callable[[], object], goal: str = "") -> float:
    wall, processor = time.perf_counter(), time.process_time()
    action()
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    print(f"{name:<32} {processor * 1e3:9.1f} ms of processor, {wall * 1e3:9.1f} ms {goal}", flush=True)
    return processor


def make_id(robot: int, day: int, number: int) -> str:
    return f"robot-{robot:02d}-{day:05d}-{number:06d}"


def schema_without_comments(name: str) -> bytes:
    lines = [line.partition("#")[0].rstrip() for line in FULL_SCHEMA(name).decode().splitlines()]
    return "\n".join(line for line in lines if line).encode() + b"\n"


def make_store(root: Path, episodes: int, robots: int, per_day: int, processes: int | None = None) -> None:
    open_store(root, create=True)
    with ProcessPoolExecutor(processes) as workers:
        made, day, waiting = 0, 0, []
        while made < episodes:
            for robot in range(robots):
                count = min(per_day, episodes - made)
                if count > 0:
                    waiting.append(workers.submit(make_day, str(root), robot, day, count))
                    made += count
            day += 1
        for work in waiting:
            work.result()


def make_day(root: str, robot: int, day: int, count: int) -> None:
    for number in range(count):
        add_episode(Path(root), robot, day, number)


_TEMPLATES: dict[tuple[int, int, bool | None], tuple[bytes, bytes]] = {}


def add_episode(root: Path, robot: int, day: int, number: int) -> None:
    label = SUCCESS if number % 3 == 0 else FAILURE
    header = EpisodeHeader(make_id(robot, day, number), f"robot-{robot:02d}", "scripted", FIRST_DAY_NS + day * DAY_NS)
    key = (robot, day, label.is_success)
    if key not in _TEMPLATES:
        sink = io.BytesIO()
        with mock.patch.object(schemas, "schema", functools.cache(schema_without_comments)):
            writer = EpisodeFileWriter(sink, header)
            writer.add_step(STEP)
            writer.finish(label, ended_ns=header.began_ns + 1, health=())
        if len(_TEMPLATES) > 8:
            _TEMPLATES.clear()
        _TEMPLATES[key] = (sink.getvalue(), header.id.encode())
    template, name = _TEMPLATES[key]
    data = bytearray(template.replace(name, header.id.encode()))
    patch_checksum(data)
    folder = folder_of(root, header.robot, header.began_ns)
    sidecar = describe(
        header,
        steps=1,
        label=label,
        ended_ns=header.began_ns + 1,
        health=(),
        file_sha256=hashlib.sha256(data).hexdigest(),
        file_bytes=len(data),
        committed_ns=header.began_ns + 2,
    )
    write_file(f"{folder}/{header.id}{MCAP}", data)
    write_file(f"{folder}/{header.id}{JSON}", encode_sidecar(sidecar))


@functools.lru_cache(maxsize=64)
def folder_of(root: Path, robot: str, began_ns: int) -> str:
    folder = StoreLayout(root).home_folder(Home(robot, day_of(began_ns)))
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def write_file(path: str, data: bytes | bytearray) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def patch_checksum(data: bytearray) -> None:
    """The chunk now contains another id."""
    offset = 8
    while offset < len(data) - 8:
        opcode, length = struct.unpack_from("<BQ", data, offset)
        if opcode == CHUNK:
            body = offset + 9
            content = body + struct.calcsize("<QQQII") + 8
            struct.pack_into("<I", data, body + 24, zlib.crc32(data[content : offset + 9 + length]))
        offset += 9 + length


if __name__ == "__main__":
    main()
