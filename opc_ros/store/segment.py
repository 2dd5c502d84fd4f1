"""A catalogue's record of one folder of episodes: a table of numbers, their strings, and a digest of it all."""

from __future__ import annotations

import bisect
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opc_ros.documents import canonical_json
from opc_ros.episode import Label, LabelSource, Outcome
from opc_ros.errors import StoreError
from opc_ros.store.layout import Home, day_of
from opc_ros.store.records import CommittedEpisode, Sidecar
from opc_ros.store.selection import Selection

VERSION = 1
DAY_NS = 86_400_000_000_000
UNKNOWN = -1  # for a missing label or seed

SOURCES = tuple(LabelSource)

ROW = np.dtype(
    [
        ("began_ns", "<i8"),
        ("duration_ns", "<i8"),
        ("committed_ns", "<i8"),
        ("seed", "<i8"),
        ("file_bytes", "<i8"),
        ("sidecar_ns", "<i8"),  # modification time of the sidecar, and its inode
        ("sidecar_node", "<u8"),
        ("id_hash", "<u8"),
        ("steps", "<u4"),
        ("policy", "<u4"),  # this and the next five: indices into `words`
        ("object_set", "<u4"),
        ("permit", "<u4"),
        ("task", "<u4"),
        ("health", "<u4"),  # a JSON list of lines
        ("labeller", "<u4"),
        ("own_labeller", "<u4"),
        ("label_revision", "<u4"),
        ("is_success", "i1"),  # UNKNOWN, 0, 1: by the newest label
        ("source", "u1"),
        ("own_is_success", "i1"),  # by the label it was committed with
        ("own_source", "u1"),
        ("sha256", "V32"),
    ]
)

_HEALTHY = "[]"


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The episodes of one folder, by id; those with an unreadable sidecar, file or label are listed in `damaged`."""

    home: Home
    ids: list[str]
    rows: np.ndarray  # (N,) of ROW
    words: list[str]
    damaged: dict[str, str] = field(default_factory=dict)  # id -> reason

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[CommittedEpisode]:
        return self.episodes(range(len(self.ids)))

    def episodes(self, indices: Iterable[int]) -> Iterator[CommittedEpisode]:
        for index in indices:
            row = self.rows[index]
            words = self.words
            success = int(row["is_success"])
            is_success = None if success == UNKNOWN else bool(success)
            seed = int(row["seed"])
            yield CommittedEpisode(
                id=self.ids[index],
                robot=self.home.robot,
                behaviour_policy=words[row["policy"]],
                object_set=words[row["object_set"]],
                permit_id=words[row["permit"]],
                began_ns=int(row["began_ns"]),
                duration_ns=int(row["duration_ns"]),
                steps=int(row["steps"]),
                label=Label(is_success, SOURCES[row["source"]], words[row["labeller"]]),
                label_revision=int(row["label_revision"]),
                file_sha256=row["sha256"].tobytes().hex(),
                file_bytes=int(row["file_bytes"]),
                health=tuple(json.loads(words[row["health"]])),
                committed_ns=int(row["committed_ns"]),
                task=words[row["task"]],
                seed=None if seed == UNKNOWN else seed,
            )

    def find(self, episode_id: str) -> int | None:
        """Row number of an id."""
        low = bisect.bisect_left(self.ids, episode_id)
        return low if low < len(self.ids) and self.ids[low] == episode_id else None

    def matching(self, selection: Selection) -> np.ndarray:
        """Which rows match a selection, (N,) bool."""
        mask = np.ones(len(self.ids), dtype=bool)
        if selection.robots and self.home.robot not in selection.robots:
            mask[:] = False
        if selection.since_ns is not None:
            mask &= self.rows["began_ns"] >= selection.since_ns
        if selection.until_ns is not None:
            mask &= self.rows["began_ns"] < selection.until_ns
        if selection.object_sets:
            mask &= self._has_word("object_set", selection.object_sets)
        if selection.behaviour_policies:
            mask &= self._has_word("policy", selection.behaviour_policies)
        if selection.label_sources:
            mask &= np.isin(self.rows["source"], [SOURCES.index(source) for source in selection.label_sources])
        if selection.outcomes:
            mask &= self._has_outcome(selection.outcomes)
        if selection.is_healthy is not None:
            mask &= self._has_word("health", (_HEALTHY,)) == selection.is_healthy
        if selection.id_part:
            mask &= np.fromiter((selection.id_part in episode_id for episode_id in self.ids), bool, len(self.ids))
        return mask

    def _has_outcome(self, outcomes: tuple[Outcome, ...]) -> np.ndarray:
        found, is_excluded = self.rows["is_success"], self.rows["source"] == SOURCES.index(LabelSource.EXCLUDED)
        each = {
            "success": found == 1,
            "failure": found == 0,
            "unlabelled": (found == UNKNOWN) & ~is_excluded,
            "excluded": is_excluded,
        }
        return np.asarray(np.any([each[outcome] for outcome in outcomes], axis=0))

    def groups(self, mask: np.ndarray | None = None) -> dict[str, list[list[Any]]]:
        """Labelled episodes as snapshots list them, by the day on which they began."""
        is_listed = self.rows["is_success"] != UNKNOWN
        if mask is not None:
            is_listed &= mask
        (indices,) = np.nonzero(is_listed)
        rows = self.rows[indices]
        digests = rows["sha256"].tobytes().hex()
        facts = zip(
            indices.tolist(),
            (rows["began_ns"] // DAY_NS).tolist(),
            range(0, len(digests), 64),
            rows["label_revision"].tolist(),
            (rows["is_success"] == 1).tolist(),
            strict=True,
        )
        days: dict[int, list[list[Any]]] = {}
        for index, day, at, revision, is_success in facts:
            days.setdefault(day, []).append([self.ids[index], digests[at : at + 64], revision, is_success])
        return {day_of(day * DAY_NS): entries for day, entries in days.items()}

    def _has_word(self, column: str, wanted: Sequence[str]) -> np.ndarray:
        places = [index for index, word in enumerate(self.words) if word in wanted]
        return np.isin(self.rows[column], places)


class SegmentBuilder:
    """Builds a table from rows that stay and sidecars that are new."""

    def __init__(self, before: Segment | None, home: Home) -> None:
        self._home = home
        self._before = before
        self._words = list(before.words) if before else []
        self._places = {word: index for index, word in enumerate(self._words)}
        self._kept: list[int] = []
        self._new: dict[str, tuple[Any, ...]] = {}
        self.damaged: dict[str, str] = {}

    def keep(self, index: int) -> None:
        self._kept.append(index)

    def add(self, sidecar: Sidecar, *, sidecar_ns: int, sidecar_node: int) -> None:
        label = sidecar.label
        success = UNKNOWN if label.is_success is None else int(label.is_success)
        labeller = self._place(label.labeller)
        source = SOURCES.index(label.source)
        self._new[sidecar.id] = (
            sidecar.began_ns,
            sidecar.duration_ns,
            sidecar.committed_ns,
            UNKNOWN if sidecar.seed is None else sidecar.seed,
            sidecar.file_bytes,
            sidecar_ns,
            sidecar_node,
            hash_id(sidecar.id),
            sidecar.steps,
            self._place(sidecar.behaviour_policy),
            self._place(sidecar.object_set),
            self._place(sidecar.permit_id),
            self._place(sidecar.task),
            self._place(_HEALTHY if not sidecar.health else canonical_json(sidecar.health)),
            labeller,
            labeller,
            0,
            success,
            source,
            success,
            source,
            bytes.fromhex(sidecar.file_sha256),
        )

    def finish(self) -> Segment:
        before_ids = self._before.ids if self._before else []
        ids = [*(before_ids[index] for index in self._kept), *self._new]
        kept = self._before.rows[self._kept] if self._before is not None else np.zeros(0, dtype=ROW)
        rows = np.concatenate([kept, np.array(list(self._new.values()), dtype=ROW)]) if self._new else kept
        order = sorted(range(len(ids)), key=ids.__getitem__)
        return Segment(self._home, [ids[i] for i in order], rows[order], self._words, self.damaged)

    def _place(self, word: str) -> int:
        if word not in self._places:
            self._places[word] = len(self._words)
            self._words.append(word)
        return self._places[word]


def relabel(segment: Segment, newest: dict[str, tuple[int, Label]], damaged: dict[str, str]) -> Segment:
    """The same episodes, each with its newest label: from `newest`, or else the label it was committed with.

    Episodes whose newest label cannot be read are left out.
    """
    words, places = list(segment.words), {word: index for index, word in enumerate(segment.words)}
    rows = segment.rows.copy()
    rows["is_success"], rows["source"] = rows["own_is_success"], rows["own_source"]
    rows["labeller"], rows["label_revision"] = rows["own_labeller"], 0
    for episode_id, (revision, label) in newest.items():
        index = segment.find(episode_id)
        if index is None:
            continue
        if label.labeller not in places:
            places[label.labeller] = len(words)
            words.append(label.labeller)
        rows[index]["label_revision"] = revision
        rows[index]["is_success"] = UNKNOWN if label.is_success is None else int(label.is_success)
        rows[index]["source"] = SOURCES.index(label.source)
        rows[index]["labeller"] = places[label.labeller]
    readable = [index for index, episode_id in enumerate(segment.ids) if episode_id not in damaged]
    ids = [segment.ids[index] for index in readable]
    return Segment(segment.home, ids, rows[readable], words, segment.damaged | damaged)


def encode_segment(segment: Segment) -> tuple[str, bytes]:
    """The digest and the bytes."""
    head = {
        "format": "opc_ros.segment",
        "version": VERSION,
        "robot": segment.home.robot,
        "day": segment.home.day,
        "ids": segment.ids,
        "words": segment.words,
        "damaged": segment.damaged,
    }
    data = canonical_json(head).encode() + b"\n" + segment.rows.tobytes()
    return hashlib.sha256(data).hexdigest(), data


def decode_segment(data: bytes, digest: str, home: Home) -> Segment:
    """Decode a segment; anything but exactly the bytes written for this folder is refused."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"catalogue: segment {digest[:12]} was changed or damaged")
    line, _, table = data.partition(b"\n")
    head = json.loads(line)  # our own bytes, verified by their digest
    if head["version"] != VERSION or (head["robot"], head["day"]) != (home.robot, home.day):
        raise StoreError(f"catalogue: segment {digest[:12]} is of another version or folder")
    return Segment(home, head["ids"], np.frombuffer(table, dtype=ROW), head["words"], head["damaged"])


def hash_id(episode_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(episode_id.encode(), digest_size=8).digest(), "little")
