"""The files, features and columns of a LeRobot dataset of format v3.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from opc_ros.task import Quantity, Task

VERSION = "v3.0"
CHUNK_FILES = 1000
FILE_MEGABYTES = 100
COMPRESSION = "snappy"

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"

CAMERA = "observation.images.camera"
STATE = "observation.state"
ELAPSED = "observation.elapsed_s"
ACTION = "action"

_SCALARS = {
    ELAPSED: "float32",
    "next.reward": "float32",
    "next.done": "bool",
    "next.success": "bool",
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}


def features(shape: tuple[int, int, int], task: Task) -> dict[str, dict[str, Any]]:
    """The entry of each column in meta/info.json."""
    return {
        CAMERA: {"dtype": "image", "shape": list(shape), "names": ["height", "width", "channels"]},
        **{name: {"dtype": "float32", "shape": [len(names)], "names": names} for name, names in _vectors(task).items()},
        **{name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in _SCALARS.items()},
    }


def data_schema(task: Task) -> pa.Schema:
    """Columns of data/, with the metadata from which Hugging Face's `datasets` recognises images."""
    columns: list[tuple[str, pa.DataType]] = [
        (CAMERA, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        *((name, pa.list_(pa.float32(), len(names))) for name, names in _vectors(task).items()),
    ]
    known: dict[str, Any] = {
        CAMERA: {"_type": "Image"},
        **{name: _sequence(len(names)) for name, names in _vectors(task).items()},
    }
    for name, dtype in _SCALARS.items():
        columns.append((name, pa.type_for_alias(dtype)))
        known[name] = {"dtype": dtype, "_type": "Value"}
    return pa.schema(columns, metadata={"huggingface": json.dumps({"info": {"features": known}})})


def locate(file_number: int) -> dict[str, int]:
    """The chunk and the file within it."""
    return {"chunk_index": file_number // CHUNK_FILES, "file_index": file_number % CHUNK_FILES}


def write_info(
    root: Path,
    *,
    fps: int,
    shape: tuple[int, int, int],
    robots: list[str],
    episodes: int,
    frames: int,
    tasks: int,
    task: Task,
) -> None:
    write_json(
        root / "meta" / "info.json",
        {
            "codebase_version": VERSION,
            "robot_type": ", ".join(robots),
            "total_episodes": episodes,
            "total_frames": frames,
            "total_tasks": tasks,
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": FILE_MEGABYTES,
            "video_files_size_in_mb": 200,
            "fps": fps,
            "splits": {"train": f"0:{episodes}"},
            "data_path": DATA_PATH,
            "video_path": None,
            "features": features(shape, task),
        },
    )


def write_tasks(root: Path, tasks: dict[str, int]) -> None:
    """Write the tasks; readers expect a pandas table whose index is the task's text."""
    note = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            _pandas_column("task_index", "int64", "int64"),
            _pandas_column("task", "unicode", "object"),
        ],
        "pandas_version": "2.0.0",
    }
    columns = pa.schema(
        [("task_index", pa.int64()), ("task", pa.string())], metadata={"pandas": json.dumps(note).encode()}
    )
    table = pa.table({"task_index": list(tasks.values()), "task": list(tasks)}, schema=columns)
    pq.write_table(table, root / "meta" / "tasks.parquet", compression=COMPRESSION)


def write_episodes(root: Path, rows: list[dict[str, Any]]) -> None:
    path = root / EPISODES_PATH.format(chunk_index=0, file_index=0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path, compression=COMPRESSION)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False), encoding="utf-8")


def _vectors(task: Task) -> dict[str, list[str]]:
    """Columns with several numbers, and the numbers' names; a task with nothing beside the image has no state."""
    state = {STATE: [_with_unit(quantity) for quantity in task.state]} if task.state else {}
    return {**state, ACTION: list(task.action_names)}


def _with_unit(quantity: Quantity) -> str:
    return f"{quantity.name}_{quantity.unit}" if quantity.unit else quantity.name


def _sequence(length: int) -> dict[str, Any]:
    return {"feature": {"dtype": "float32", "_type": "Value"}, "length": length, "_type": "Sequence"}


def _pandas_column(name: str, pandas_type: str, numpy_type: str) -> dict[str, Any]:
    return {
        "name": name,
        "field_name": name,
        "pandas_type": pandas_type,
        "numpy_type": numpy_type,
        "metadata": None,
    }
