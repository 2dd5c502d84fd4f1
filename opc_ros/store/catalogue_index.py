"""The list of a catalogue's segments: one small file with the state and content of each folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opc_ros.documents import canonical_json, read_bytes
from opc_ros.durable import swap_file
from opc_ros.errors import StoreError
from opc_ros.store.layout import Home
from opc_ros.store.segment import SOURCES, Segment
from opc_ros.store.snapshot_groups import encode_group

FORMAT = "opc_ros.catalogue/2"


class Count(NamedTuple):
    """How many episodes of a folder have the same policy, object set, label source and outcome."""

    policy: str
    object_set: str
    source: str
    is_success: int  # UNKNOWN, 0, 1
    episodes: int
    steps: int
    file_bytes: int
    unhealthy: int


class FolderMarks(NamedTuple):
    """When a folder of episodes, its labels' folder and its shards' folder last changed."""

    own_ns: int
    labels_ns: int
    shards_ns: int


class FolderFacts(NamedTuple):
    """One folder of episodes, as it was when it was last read."""

    robot: str
    day: str
    mark_ns: int  # when the folder last changed; 0: so recently that it may change again within the same timestamp
    label_mark_ns: int  # of its labels' folder; -1: there is none
    shard_mark_ns: int  # of its shards' folder
    segment: str  # digest
    episodes: int
    damaged: int
    first_ns: int  # when its earliest and its latest episode began
    last_ns: int
    counts: Sequence[Sequence[Any]]  # each holds the fields of a Count, left unparsed: thousands are read, few are used
    groups: Sequence[Sequence[Any]]  # each holds the fields of a SnapshotGroup, used by a snapshot of the whole folder

    @property
    def home(self) -> Home:
        return Home(self.robot, self.day)

    @property
    def marks(self) -> FolderMarks:
        return FolderMarks(self.mark_ns, self.label_mark_ns, self.shard_mark_ns)


@dataclass(frozen=True, slots=True)
class Index:
    """All folders, and the labels that older stores keep apart."""

    folders: dict[Home, FolderFacts] = field(default_factory=dict)
    days: dict[str, tuple[int, list[str]]] = field(default_factory=dict)  # robot -> its folder's mark, its day folders
    older_labels: dict[str, tuple[int, int]] = field(default_factory=dict)  # id -> its folder's mark, newest revision


def describe_segment(segment: Segment, digest: str, marks: FolderMarks) -> FolderFacts:
    began = segment.rows["began_ns"]
    return FolderFacts(
        robot=segment.home.robot,
        day=segment.home.day,
        mark_ns=marks.own_ns,
        label_mark_ns=marks.labels_ns,
        shard_mark_ns=marks.shards_ns,
        segment=digest,
        episodes=len(segment),
        damaged=len(segment.damaged),
        first_ns=int(began.min()) if len(segment) else 0,
        last_ns=int(began.max()) if len(segment) else 0,
        counts=count_rows(segment),
        groups=[encode_group(segment.home.robot, day, rows)[0] for day, rows in sorted(segment.groups().items())],
    )


def count_rows(segment: Segment, mask: np.ndarray | None = None) -> list[Count]:
    """Counts of all rows, or of those in a mask."""
    rows = segment.rows if mask is None else segment.rows[mask]
    if not len(rows):
        return []
    columns = ("policy", "object_set", "source", "is_success")
    keys = np.stack([rows[name].astype(np.int64) for name in columns], axis=1)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.reshape(-1)
    is_unhealthy = np.array([word != "[]" for word in segment.words], dtype=bool)[rows["health"]]
    episodes = np.bincount(which)
    steps = np.bincount(which, weights=rows["steps"])
    file_bytes = np.bincount(which, weights=rows["file_bytes"])
    unhealthy = np.bincount(which, weights=is_unhealthy)
    return [
        Count(
            policy=segment.words[policy],
            object_set=segment.words[object_set],
            source=SOURCES[source].value,
            is_success=is_success,
            episodes=int(episodes[kind]),
            steps=int(steps[kind]),
            file_bytes=int(file_bytes[kind]),
            unhealthy=int(unhealthy[kind]),
        )
        for kind, (policy, object_set, source, is_success) in enumerate(kinds.tolist())
    ]


def write_index(path: Path, index: Index) -> None:
    """Write the index without waiting for the disk: if a power cut takes it, it is made again."""
    document = {
        "format": FORMAT,
        "folders": list(index.folders.values()),
        "days": index.days,
        "older_labels": index.older_labels,
    }
    text = canonical_json(document).encode()
    swap_file(path, text + b"\n" + hashlib.sha256(text).hexdigest().encode() + b"\n")


def read_index(path: Path) -> Index:
    """Read the index; raises StoreError unless it is exactly what was written."""
    text, _, digest = read_bytes(path, error=StoreError).rstrip(b"\n").rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise StoreError(f"{path}: was changed or damaged")
    try:
        document: Any = json.loads(text)  # our own bytes, verified by their digest
        if document["format"] != FORMAT:
            raise StoreError(f"{path}: of another format")
        folders = [FolderFacts(*entry) for entry in document["folders"]]
        return Index(
            folders={facts.home: facts for facts in folders},
            days={robot: (mark, days) for robot, (mark, days) in document["days"].items()},
            older_labels={name: (mark, newest) for name, (mark, newest) in document["older_labels"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StoreError(f"{path}: not a catalogue: {error}") from error
