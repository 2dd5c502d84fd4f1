"""An index of committed episodes and their labels, kept beside the files and never a substitute for them.

For each folder it stores when the folder last changed and a table of its content. Whoever asks first checks those
times, reads what is new in the folders that changed, and saves the result for the next. There are no locks: tables are
named by their digest and their list is replaced as a whole, so if a catalogue is stale, missing or damaged, the missing
part is just read again. Committing an episode does not touch it.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from opc_ros.durable import swap_file
from opc_ros.episode import Label, check_name
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store import labels
from opc_ros.store.catalogue_hashes import IdHashes, build_hashes
from opc_ros.store.catalogue_index import FolderFacts, FolderMarks, Index, describe_segment, read_index, write_index
from opc_ros.store.layout import JSON, MCAP, Home, Place, StoreLayout
from opc_ros.store.segment import Segment, SegmentBuilder, decode_segment, encode_segment, hash_id, relabel
from opc_ros.store.shards import PackedHome, Shards
from opc_ros.store.sidecars import read_listed

SETTLED_NS = 2_000_000_000  # after a more recent change, a folder may change again within the same timestamp
NO_FOLDER = -1


class Catalogue:
    """What one process knows about a store's episodes; any number of processes may have one."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._lock = threading.RLock()
        self._index: Index | None = None
        self._fresh: dict[str, Segment] = {}  # by digest: made here and not on disk
        self._hashes: IdHashes | None = None
        self.shards = Shards(layout)

    def refresh(self) -> Index:
        """Bring it up to date with the files."""
        with self._lock:
            before = self._index if self._index is not None else self._load()
            after = _Refreshing(self._layout, before, self).run()
            if after is not before:
                self._store(before, after)
                self._hashes = None
            self._index = after
            return after

    def folders(self) -> list[FolderFacts]:
        """Every folder as it is now, by robot and day."""
        return sorted(self.refresh().folders.values(), key=lambda facts: facts.home)

    def segment(self, facts: FolderFacts) -> Segment:
        """The table of a folder, read again from the files if the catalogue's copy is missing or damaged."""
        found = self.load(facts)
        while found is None:
            with self._lock:
                self._forget(facts.home)
                now = self.refresh().folders.get(facts.home)
            if now is None:
                return SegmentBuilder(None, facts.home).finish()
            found = self.load(now)
        return found

    def load(self, facts: FolderFacts) -> Segment | None:
        """The catalogue's copy of a folder's table; None if it is missing or damaged."""
        found = self._fresh.get(facts.segment)
        if found is not None:
            return found
        try:
            return decode_segment(self._segment_path(facts.segment).read_bytes(), facts.segment, facts.home)
        except (OSError, StoreError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def segments(self) -> Iterator[Segment]:
        for facts in self.folders():
            yield self.segment(facts)

    def locate(self, episode_id: str, *, is_fresh: bool = True) -> Place | None:
        """Where a committed episode is; without `is_fresh`, as far as is known without checking for changes.

        An invalid id never becomes a path.
        """
        check_name("episode", episode_id)
        with self._lock:
            if is_fresh or self._index is None:
                self.refresh()
            for home in self._id_hashes().homes_of(episode_id):
                place = Place(home, episode_id)
                if self._layout.sidecar(place).exists():
                    return place
        return None

    def _id_hashes(self) -> IdHashes:
        while self._hashes is None:
            index = self._index
            assert index is not None
            path, folders = self._layout.catalogue / "hashes", list(index.folders.values())
            found = build_hashes(path, folders, self.segment, functools.partial(self._is_still, index))
            if self._is_still(index):
                self._hashes = found
        return self._hashes

    def _is_still(self, index: Index) -> bool:
        return self._index is index

    def _load(self) -> Index:
        try:
            return read_index(self._index_path)
        except StoreError:
            return Index()

    def _store(self, before: Index, after: Index) -> None:
        """Save it for others; if that fails, this process still has it."""
        gone = {facts.segment for facts in before.folders.values()} - {
            facts.segment for facts in after.folders.values()
        }
        try:
            self._layout.catalogue.mkdir(exist_ok=True)
            for digest, segment in list(self._fresh.items()):
                path = self._segment_path(digest)
                path.parent.mkdir(exist_ok=True)
                swap_file(path, encode_segment(segment)[1])
            write_index(self._index_path, after)
            self._fresh.clear()
            for digest in gone:
                self._segment_path(digest).unlink(missing_ok=True)
        except OSError:
            for digest in gone:
                self._fresh.pop(digest, None)

    def _forget(self, home: Home) -> None:
        if self._index is not None:
            folders = {key: facts for key, facts in self._index.folders.items() if key != home}
            self._index = Index(folders, self._index.days, self._index.older_labels)
            self._hashes = None

    def keep(self, segment: Segment) -> str:
        """Keep a table that is to be saved for others; returns its digest."""
        digest, _ = encode_segment(segment)
        self._fresh[digest] = segment
        return digest

    @property
    def _index_path(self) -> Path:
        return self._layout.catalogue / "index"

    def _segment_path(self, digest: str) -> Path:
        return self._layout.catalogue / digest[:2] / digest


class _Refreshing:
    """One check of all folders."""

    def __init__(self, layout: StoreLayout, before: Index, catalogue: Catalogue) -> None:
        self._layout = layout
        self._before = before
        self._catalogue = catalogue
        self._now_ns = time.time_ns()

    def run(self) -> Index:
        """The index as it is now; the same object if nothing has changed."""
        days = {robot: self._look_for_days(robot) for robot in self._layout.robots()}
        older = self._look_for_older_labels()
        moved = {name for name, found in older.items() if self._before.older_labels.get(name) != found}
        moved |= self._before.older_labels.keys() - older.keys()
        touched = self._homes_of(moved)
        folders: dict[Home, FolderFacts] = {}
        for robot, (_, names) in days.items():
            for home in (Home(robot), *(Home(robot, name) for name in names)):
                facts = self._look_at(home, older, is_touched=home in touched)
                if facts is not None:
                    folders[home] = facts
        if folders == self._before.folders and days == self._before.days and older == self._before.older_labels:
            return self._before
        return Index(folders, days, older)

    def _look_for_days(self, robot: str) -> tuple[int, list[str]]:
        mark = _mark(self._layout.episodes / robot)
        known = self._before.days.get(robot)
        if known is not None and known[0] == mark:
            return known
        return self._settled(mark), self._layout.days(robot)

    def _look_at(self, home: Home, older: dict[str, tuple[int, int]], *, is_touched: bool) -> FolderFacts | None:
        known = self._before.folders.get(home)
        marks = FolderMarks(
            _mark(self._layout.home_folder(home)),
            _mark(self._layout.label_folder(home)),
            _mark(self._layout.shard_folder(home)),
        )
        if known is not None and not is_touched and not known.damaged and marks == known.marks:
            return known
        if marks.own_ns == NO_FOLDER:
            return None
        before = self._catalogue.load(known) if known is not None else None
        committed = self._read_folder(home, before)
        segment = self._with_labels(committed, older)
        if before is not None and known is not None and _is_same(before, segment):
            segment, digest = before, known.segment
        else:
            digest = self._catalogue.keep(segment)
        marks = FolderMarks(*map(self._settled, marks))
        if known is not None and known.segment == digest:
            return known._replace(mark_ns=marks.own_ns, label_mark_ns=marks.labels_ns, shard_mark_ns=marks.shards_ns)
        return describe_segment(segment, digest, marks)

    def _read_folder(self, home: Home, before: Segment | None) -> Segment:
        known = {} if before is None else {episode_id: index for index, episode_id in enumerate(before.ids)}
        builder = SegmentBuilder(before, home)
        folder = os.fspath(self._layout.home_folder(home))
        sidecars, files = _scan(folder)
        shards = self._catalogue.shards
        # Look for shards only where a file is missing: most folders have none.
        packed = PackedHome() if sidecars.keys() <= files or not self._layout.has_files else shards.of(home)
        for episode_id, (changed_ns, node) in sidecars.items():
            index = known.get(episode_id)
            if before is not None and index is not None:
                row = before.rows[index]
                is_there = episode_id in files or not self._layout.has_files
                is_there = is_there or packed.find(episode_id, row["sha256"].tobytes().hex()) is not None
                if is_there and row["sidecar_ns"] == changed_ns and row["sidecar_node"] == node:
                    builder.keep(index)
                    continue
            try:
                sidecar = read_listed(self._layout, Place(home, episode_id), folder, shards)
                builder.add(sidecar, sidecar_ns=changed_ns, sidecar_node=node)
            except EpisodeDamaged as error:
                builder.damaged[episode_id] = str(error)
        return builder.finish()

    def _with_labels(self, segment: Segment, older: dict[str, tuple[int, int]]) -> Segment:
        paths: dict[str, tuple[int, Path]] = {}
        for file in labels.label_files(self._layout.label_folder(segment.home)):
            if not file.is_damaged and file.revision > paths.get(file.episode_id, (0, file.path))[0]:
                paths[file.episode_id] = (file.revision, file.path)
        if older:
            for episode_id in segment.ids:
                revision = older.get(episode_id, (0, 0))[1]
                if revision > paths.get(episode_id, (0, Path()))[0]:
                    paths[episode_id] = (revision, self._layout.labels / episode_id / f"{revision}{JSON}")
        if not paths and not segment.rows["label_revision"].any():
            return segment
        newest: dict[str, tuple[int, Label]] = {}
        damaged: dict[str, str] = {}
        for episode_id, (revision, path) in paths.items():
            try:
                if segment.find(episode_id) is not None:
                    newest[episode_id] = (revision, labels.read_label(path, episode_id, revision).label)
            except EpisodeDamaged as error:
                damaged[episode_id] = str(error)
        return relabel(segment, newest, damaged)

    def _look_for_older_labels(self) -> dict[str, tuple[int, int]]:
        """Older stores have a folder for each relabelled episode."""
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self._layout.labels) as entries:
                marks = {entry.name: entry.stat().st_mtime_ns for entry in entries if not entry.name.startswith(".")}
        except FileNotFoundError:
            return found
        for name, mark in marks.items():
            known = self._before.older_labels.get(name)
            if known is not None and known[0] == mark:
                found[name] = known
                continue
            files = labels.older_label_files(self._layout.labels / name)
            newest = max((file.revision for file in files if not file.is_damaged), default=0)
            if newest or known is not None:
                found[name] = (self._settled(mark), newest)
        return found

    def _homes_of(self, episode_ids: Iterable[str]) -> set[Home]:
        wanted = set(episode_ids)
        if not wanted:
            return set()
        hashes = np.array([hash_id(episode_id) for episode_id in wanted], dtype=np.uint64)
        found = set()
        for home, facts in self._before.folders.items():
            segment = self._catalogue.load(facts)
            if segment is None or np.isin(hashes, segment.rows["id_hash"]).any():
                found.add(home)
        return found

    def _settled(self, mark_ns: int) -> int:
        return mark_ns if mark_ns == NO_FOLDER or 0 <= mark_ns < self._now_ns - SETTLED_NS else 0


def _scan(folder: str) -> tuple[dict[str, tuple[int, int]], set[str]]:
    """Sidecars with their modification times and inodes, and the names of episode files."""
    sidecars: dict[str, tuple[int, int]] = {}
    files: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(MCAP):
                    files.add(name[: -len(MCAP)])
                elif name.endswith(JSON) and not name.startswith("."):
                    try:
                        found = entry.stat()
                    except FileNotFoundError:
                        continue
                    sidecars[name[: -len(JSON)]] = (found.st_mtime_ns, found.st_ino)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}; nothing is known about the episodes in it") from error
    return sidecars, files


def _mark(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return NO_FOLDER
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error


def _is_same(one: Segment, other: Segment) -> bool:
    return (
        one.ids == other.ids
        and one.damaged == other.damaged
        and one.words == other.words
        and bool((one.rows == other.rows).all())
    )
