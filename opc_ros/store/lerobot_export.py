"""Export of a snapshot to a LeRobot dataset, with the camera's images embedded as they were sent."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opc_ros.durable import PART, store_error
from opc_ros.episode import Episode, Frame
from opc_ros.errors import StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import lerobot_layout as layout
from opc_ros.store.lerobot_record import RECORD, describe_episode, embed_image
from opc_ros.store.lerobot_stats import FeatureStats, image_stats, merge_stats, vector_stats
from opc_ros.store.snapshots import Snapshot
from opc_ros.store.store import Store
from opc_ros.task import Task, find_task


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    folder: Path
    episodes: int
    frames: int
    fps: int


def export_lerobot(
    store: Store, snapshot: Snapshot, folder: Path, *, fps: int | None = None, report: Report = ignore_progress
) -> Export:
    """Write a snapshot as one dataset folder, completely or not at all.

    LeRobot counts time in frames at a fixed rate: `timestamp` is the frame's number divided by `fps`, and the time by
    the camera's timestamps is `observation.elapsed_s`. Without `fps`, the median rate of the first episodes is used.
    """
    if folder.exists():
        raise StoreError(f"{folder}: exists, expected a new folder to export to")
    part = folder.with_name(folder.name + PART)
    try:
        shutil.rmtree(part, ignore_errors=True)
        (part / "meta").mkdir(parents=True)
        writer = _DatasetWriter(part, fps or _median_rate(store, snapshot))
        for number, entry in enumerate(snapshot.entries):
            report(number, len(snapshot.entries), entry.episode_id)
            writer.add(store.read_entry(entry))
        report(len(snapshot.entries), len(snapshot.entries))
        writer.finish(snapshot)
        part.rename(folder)
    except OSError as error:
        raise store_error(f"{folder}: cannot export", error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Export(folder=folder, episodes=len(snapshot.entries), frames=writer.frames, fps=writer.fps)


class _DatasetWriter:
    """Writes episodes one after the other to files of limited size, with one row group for each episode."""

    def __init__(self, root: Path, fps: int) -> None:
        self.fps = fps
        self.frames = 0
        self._root = root
        self._shape: tuple[int, int, int] | None = None
        self._task: Task | None = None
        self._tasks: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []
        self._stats: list[dict[str, FeatureStats]] = []
        self._file_number = -1
        self._file_bytes = 0
        self._file: pq.ParquetWriter | None = None

    def add(self, episode: Episode) -> None:
        images = [step.frame.decode() for step in episode.steps]
        self._check_shapes(episode, images)
        task = self._check_task(episode)
        goal = task.instruct(episode.object_set)
        columns = self._columns(episode, self._tasks.setdefault(goal, len(self._tasks)))
        stats = {
            name: vector_stats(np.asarray(values, dtype=np.float64).reshape(len(values), -1))
            for name, values in columns.items()
            if name != layout.CAMERA
        }
        stats[layout.CAMERA] = image_stats(images)
        self._write(pa.table(columns, schema=layout.data_schema(task)))
        place = layout.locate(self._file_number)
        self._rows.append(
            {
                "episode_index": len(self._rows),
                "tasks": [goal],
                "length": len(images),
                "data/chunk_index": place["chunk_index"],
                "data/file_index": place["file_index"],
                "dataset_from_index": self.frames,
                "dataset_to_index": self.frames + len(images),
                **{f"stats/{name}/{key}": value for name in stats for key, value in stats[name].to_json().items()},
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
                "opc/episode_id": episode.id,
                "opc/robot": episode.robot,
                "opc/behaviour_policy": episode.behaviour_policy,
                "opc/object_set": episode.object_set,
                "opc/is_success": episode.label.is_success,
                RECORD: describe_episode(episode).to_json(),
            }
        )
        self._stats.append(stats)
        self.frames += len(images)

    def finish(self, snapshot: Snapshot) -> None:
        if self._file is not None:
            self._file.close()
        assert self._shape is not None
        assert self._task is not None
        layout.write_tasks(self._root, self._tasks)
        layout.write_episodes(self._root, self._rows)
        layout.write_info(
            self._root,
            fps=self.fps,
            shape=self._shape,
            robots=sorted({entry.robot for entry in snapshot.entries}),
            episodes=len(self._rows),
            frames=self.frames,
            tasks=len(self._tasks),
            task=self._task,
        )
        merged = {name: merge_stats([stats[name] for stats in self._stats]).to_json() for name in self._stats[0]}
        layout.write_json(self._root / "meta" / "stats.json", merged)
        layout.write_json(self._root / "meta" / "opc_ros.json", {"snapshot": snapshot.id})

    def _columns(self, episode: Episode, task_index: int) -> dict[str, Any]:
        steps = episode.steps
        count = len(steps)
        is_last = [index == count - 1 for index in range(count)]
        is_success = [bool(episode.label.is_success) and last for last in is_last]
        return {
            layout.CAMERA: [_embed(step.frame, index) for index, step in enumerate(steps)],
            **({layout.STATE: episode.states().tolist()} if episode.states().shape[1] else {}),
            layout.ACTION: episode.actions().tolist(),
            layout.ELAPSED: [(step.frame.stamp_ns - episode.started_ns) / 1e9 for step in steps],
            "next.reward": [float(success) for success in is_success],
            "next.done": is_last,
            "next.success": is_success,
            "timestamp": [index / self.fps for index in range(count)],
            "frame_index": list(range(count)),
            "episode_index": [len(self._rows)] * count,
            "index": list(range(self.frames, self.frames + count)),
            "task_index": [task_index] * count,
        }

    def _check_task(self, episode: Episode) -> Task:
        task = find_task(episode.task, where=f"episode {episode.id}")
        self._task = self._task or task
        if task is not self._task:
            raise StoreError(
                f"episode {episode.id}: is of {task.name}, expected {self._task.name} as before: LeRobot wants one set "
                "of columns, so select episodes of one task"
            )
        return task

    def _write(self, table: pa.Table) -> None:
        if self._file is None or self._file_bytes + table.nbytes > layout.FILE_MEGABYTES * 1024 * 1024:
            if self._file is not None:
                self._file.close()
            self._file_number += 1
            self._file_bytes = 0
            path = self._root / layout.DATA_PATH.format(**layout.locate(self._file_number))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pq.ParquetWriter(path, table.schema, compression=layout.COMPRESSION)
        self._file.write_table(table)
        self._file_bytes += table.nbytes

    def _check_shapes(self, episode: Episode, images: list[np.ndarray]) -> None:
        for index, image in enumerate(images):
            self._shape = self._shape or (image.shape[0], image.shape[1], image.shape[2])
            if image.shape != self._shape:
                raise StoreError(
                    f"episode {episode.id}: image of step {index} has shape {image.shape}, expected "
                    f"{self._shape} as before: LeRobot wants one size, so select episodes of one camera"
                )


def _embed(frame: Frame, index: int) -> dict[str, Any]:
    suffix = "jpg" if frame.encoding == "jpeg" else "png"
    return {"bytes": embed_image(frame), "path": f"frame-{index:06d}.{suffix}"}


def _median_rate(store: Store, snapshot: Snapshot) -> int:
    gaps_ns = [
        after.frame.stamp_ns - before.frame.stamp_ns
        for entry in snapshot.entries[:20]
        for before, after in pairwise(store.read_entry(entry).steps)
    ]
    return max(1, round(1e9 / statistics.median(gaps_ns))) if gaps_ns else 1
