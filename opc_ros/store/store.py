"""Append-only store of validated episodes."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from opc_ros.durable import PART, make_folder, replace_file, store_error
from opc_ros.episode import Episode, EpisodeHeader, Label, check_text
from opc_ros.errors import EpisodeDamaged, EpisodeError, EpisodeNotFound, StoreError
from opc_ros.store import labels, snapshots
from opc_ros.store.blobs import FolderBlobs
from opc_ros.store.catalogue import Catalogue
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.episode_bytes import EpisodeBytes
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.layout import Place, StoreLayout
from opc_ros.store.object_blobs import is_bucket
from opc_ros.store.paging import may_match, read_page
from opc_ros.store.quarantine import Quarantined, list_quarantine
from opc_ros.store.records import CommittedEpisode
from opc_ros.store.sealed import encode_document, read_document
from opc_ros.store.selection import EVERYTHING, Selection
from opc_ros.store.sidecars import read_committed
from opc_ros.store.snapshot_groups import SnapshotEntry
from opc_ros.store.snapshots import Snapshot
from opc_ros.store.statistics import Statistics, tally_catalogue
from opc_ros.store.writer import EpisodeWriter

READ_AHEAD = 2  # episodes


def open_store(path: Path | str, *, create: bool = False, now: Callable[[], int] = time.time_ns) -> Store:
    """Open a store's folder, or `s3://bucket/name`; with `create`, create a store if there is none."""
    if is_bucket(path):
        from opc_ros.store.bucket_store import open_bucket_store

        return open_bucket_store(path, create=create, now=now)
    layout = StoreLayout(Path(path).expanduser().absolute())
    try:
        if create and not layout.marker.exists():
            _create(layout)
        if not layout.root.is_dir():
            raise StoreError(f"{layout.root}: no such folder, expected a validation store")
        if not layout.marker.exists():
            raise StoreError(f"{layout.root}: not a validation store (it has no store.json)")
    except OSError as error:
        raise store_error(str(layout.root), error) from error
    read_document(layout.marker, "store")
    return Store(layout, now)


class Store:
    """Episodes, labels and snapshots below one folder; any number of processes may use it at once."""

    def __init__(self, layout: StoreLayout, now: Callable[[], int]) -> None:
        self._layout = layout
        self._now = now
        self._catalogue = Catalogue(layout)
        self._contents = EpisodeBytes(layout, FolderBlobs(layout.root), self._catalogue.shards)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is held open between calls."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process builds its own catalogue."""
        return Store, (self._layout, self._now)

    @property
    def path(self) -> Path:
        return self._layout.root

    @property
    def layout(self) -> StoreLayout:
        return self._layout

    @property
    def writable(self) -> Store:  # where writers on this machine leave their files
        return self

    @property
    def now(self) -> Callable[[], int]:
        return self._now

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    @property
    def contents(self) -> EpisodeBytes:
        """The bytes of episodes, for callers that need nothing else."""
        return self._contents

    def begin(self, header: EpisodeHeader, topics: Mapping[str, str] | None = None) -> EpisodeWriter:
        """Start recording an episode; its id must be new to the store. `topics` are its topic names by message type."""
        return EpisodeWriter(self._layout, header, self._now, self._find_committed, topics)

    def append(self, episode: Episode, *, health: tuple[str, ...] = ()) -> CommittedEpisode:
        """Write and commit an episode that is already complete."""
        writer = self.begin(episode.header)
        try:
            for step in episode.steps:
                writer.add_step(step)
            return writer.commit(episode.label, health=health)
        except BaseException:
            writer.discard()
            raise

    def episodes(
        self,
        selection: Selection = EVERYTHING,
        *,
        on_damage: Callable[[EpisodeDamaged], None] | None = None,
    ) -> Iterator[CommittedEpisode]:
        """Every selected committed episode with its newest label, by robot, day and id.

        An episode with an unreadable sidecar, file or label raises EpisodeDamaged, or is passed to `on_damage` and left
        out.
        """
        for facts in self._catalogue.folders():
            if facts.damaged:
                self._tell_damage(facts, on_damage)
            if facts.episodes and may_match(facts, selection):
                segment = self._catalogue.segment(facts)
                yield from segment.episodes(np.nonzero(segment.matching(selection))[0].tolist())

    def episode_ids(self) -> Iterator[str]:
        """Ids of every committed episode that can be read."""
        for segment in self._catalogue.segments():
            yield from segment.ids

    def beginnings(self) -> Iterator[tuple[str, int]]:
        """Id and beginning of every committed episode that can be read; cheaper than reading more."""
        for segment in self._catalogue.segments():
            yield from zip(segment.ids, segment.rows["began_ns"].tolist(), strict=True)

    def page(
        self, selection: Selection = EVERYTHING, *, first: int = 0, count: int = 50, is_newest_first: bool = True
    ) -> list[CommittedEpisode]:
        """Some of the selected episodes in the order they began; damaged ones are left out."""
        return read_page(self._catalogue, selection, first=first, count=count, is_newest_first=is_newest_first)

    def statistics(self, selection: Selection = EVERYTHING) -> Statistics:
        """Counts of the selected episodes; damaged ones are left out."""
        return tally_catalogue(self._catalogue, selection)

    def damage(self) -> list[EpisodeDamaged]:
        """Why some committed episodes cannot be read."""
        found: list[EpisodeDamaged] = []
        for facts in self._catalogue.folders():
            if facts.damaged:
                self._tell_damage(facts, found.append)
        return found

    def find(self, episode_id: str) -> CommittedEpisode:
        """One committed episode with its newest label, read from its own files."""
        return self.read_committed(self.locate(episode_id))

    def read(self, episode_id: str) -> Episode:
        """An episode with its newest label; its bytes are checked against what was committed."""
        return self.read_place(self.locate(episode_id))

    def file_of(self, episode_id: str) -> Path:
        """An episode's MCAP file, for callers that read it themselves; a copy, if the episode is packed."""
        place = self.locate(episode_id)
        path = self._layout.file(place)
        if path.exists():
            return path
        return self._contents.copy_out(place, self.read_committed(place).file_sha256, self._layout.copies)

    def label(self, episode_id: str, label: Label, *, note: str = "", signature: str = "") -> int:
        """Give an episode a newer label; returns its revision. A Label without outcome withdraws the previous one.

        `signature` is what the labeller signed, in labs whose people have keys.
        """
        place = self.locate(episode_id)
        if self.read_committed(place).label.is_excluded:
            raise StoreError(f"episode {episode_id}: is excluded, so no label counts; `opc store restore` it first")
        return self.add_label(place, label, note=note, signature=signature)

    def add_label(self, place: Place, label: Label, *, note: str, signature: str = "") -> int:
        """Append the next label revision, even if the episode is excluded."""
        episode_id = place.episode_id
        check_text(f"episode {episode_id}", note + label.labeller)
        try:
            return labels.append_label(self._layout, place, label, note=note, now_ns=self._now(), signature=signature)
        except OSError as error:
            raise store_error(f"episode {episode_id}: cannot label", error) from error

    def take_snapshot(self, selection: Selection = EVERYTHING, *, tag: str = "") -> Snapshot:
        """Pin the labelled episodes that match now; the same set always has the same id."""
        try:
            snapshot = snapshots.take_snapshot(self._layout, self._catalogue, selection)
            if tag:
                snapshots.write_tag(self._layout, tag, snapshot.id)
        except OSError as error:
            raise store_error(f"{self.path}: cannot write a snapshot", error) from error
        return snapshot

    def snapshot_id_now(self, selection: Selection = EVERYTHING) -> str:
        """The id that `take_snapshot` would return, without writing anything; used for polling."""
        return snapshots.compose_snapshot(self._catalogue, selection).id

    def snapshot(self, ref: str) -> Snapshot:
        """Find a snapshot by digest, unique beginning of a digest, or tag."""
        return snapshots.read_snapshot(self._layout, snapshots.resolve(self._layout, ref))

    def snapshots(self) -> list[str]:
        """Digests of all snapshots."""
        return snapshots.snapshot_ids(self._layout)

    def tags(self) -> dict[str, str]:
        """Tags and the digests they point to."""
        return {name: snapshots.read_tag(self._layout, name) for name in snapshots.tag_names(self._layout)}

    def read_entry(self, entry: SnapshotEntry) -> Episode:
        """One episode of a snapshot: exactly the pinned bytes, with the pinned label."""
        place = self._catalogue.locate(entry.episode_id, is_fresh=False) or self._catalogue.locate(entry.episode_id)
        if place is None or place.robot != entry.robot:
            raise EpisodeNotFound(f"episode {entry.episode_id} of robot {entry.robot}: not in {self.path}")
        whole = self._read_file(place, entry.file_sha256)
        # The label an episode was committed with is in its own bytes too, which saves reading one more file for each.
        revision = entry.label_revision
        label = labels.read_revision(self._layout, place, revision).label if revision > 0 else whole.label
        if label.is_success is not entry.is_success:
            raise EpisodeDamaged(
                f"episode {entry.episode_id}: label revision {revision} says {label.is_success}, "
                f"the snapshot {entry.is_success}"
            )
        return _to_episode(whole, label)

    def read_snapshot(self, snapshot: Snapshot) -> Iterator[Episode]:
        """All episodes in canonical order; the first that cannot be read raises."""
        for _, episode in self.read_each(snapshot.entries):
            if isinstance(episode, StoreError):
                raise episode
            yield episode

    def read_each(self, entries: Iterable[SnapshotEntry]) -> Iterator[tuple[SnapshotEntry, Episode | StoreError]]:
        """Each entry with its episode, or with the reason why it cannot be read; reads ahead while the caller works."""
        ahead: deque[tuple[SnapshotEntry, Future[Episode | StoreError]]] = deque()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="episodes") as reader:
            for entry in entries:
                ahead.append((entry, reader.submit(self._try_entry, entry)))
                if len(ahead) > READ_AHEAD:
                    first, reading = ahead.popleft()
                    yield first, reading.result()
            for last, reading in ahead:
                yield last, reading.result()

    def quarantined(self) -> tuple[list[Quarantined], list[StoreError]]:
        """What is in quarantine and why, and what there cannot be read."""
        return list_quarantine(self._layout)

    def read_committed(self, place: Place) -> CommittedEpisode:
        """What the files at a place say, independent of the catalogue."""
        committed = read_committed(self._layout, place, self._contents.shards).to_committed()
        numbers = labels.revisions(self._layout, place)
        if not numbers:
            return committed
        newest = labels.read_revision(self._layout, place, numbers[-1])
        return dataclasses.replace(committed, label=newest.label, label_revision=newest.revision)

    def read_place(self, place: Place) -> Episode:
        committed = self.read_committed(place)
        whole = self._read_file(place, committed.file_sha256)
        if len(whole.steps) != committed.steps:
            raise EpisodeDamaged(
                f"episode {place.episode_id}: file has {len(whole.steps)} steps, sidecar says {committed.steps}"
            )
        if (whole.header.task, whole.header.seed) != (committed.task, committed.seed):
            raise EpisodeDamaged(
                f"episode {place.episode_id}: file is of task {whole.header.task} with seed {whole.header.seed}, "
                f"sidecar says {committed.task} with {committed.seed}"
            )
        return _to_episode(whole, committed.label)

    def locate(self, episode_id: str) -> Place:
        """Where an episode's files are."""
        place = self._catalogue.locate(episode_id, is_fresh=False) or self._catalogue.locate(episode_id)
        if place is None:
            raise EpisodeNotFound(f"episode {episode_id}: not in {self.path}")
        return place

    def look_at_everything(self) -> list[str]:
        """Forget what earlier checks found, before a verification; returns one line for each problem."""
        return []

    def _find_committed(self, episode_id: str) -> Place | None:
        return self._catalogue.locate(episode_id, is_fresh=False)

    def _tell_damage(self, facts: FolderFacts, on_damage: Callable[[EpisodeDamaged], None] | None) -> None:
        for complaint in map(EpisodeDamaged, self._catalogue.segment(facts).damaged.values()):
            if on_damage is None:
                raise complaint
            on_damage(complaint)

    def _try_entry(self, entry: SnapshotEntry) -> Episode | StoreError:
        try:
            return self.read_entry(entry)
        except StoreError as error:
            return error

    def _read_file(self, place: Place, file_sha256: str) -> WholeEpisode:
        data, where = self._contents.read(place, file_sha256), f"episode {place.episode_id}"
        whole = read_whole(data, where=where, are_crcs_checked=False)
        if (whole.header.robot, whole.header.id) != (place.robot, place.episode_id):
            raise EpisodeDamaged(f"{where}: {self._layout.file(place)} holds episode {whole.header.id}")
        return whole


def _create(layout: StoreLayout) -> None:
    """Write the marker first, so that two processes creating the store at once do not refuse each other's files."""
    own = {layout.marker.name, layout.catalogue.name, layout.shards.name, *(folder.name for folder in layout.folders)}
    if layout.root.is_dir():
        foreign = [entry.name for entry in layout.root.iterdir() if entry.name not in own]
        foreign = [name for name in foreign if not (name.startswith(".") and name.endswith(PART))]
        if foreign:
            raise StoreError(
                f"{layout.root}: holds {foreign[0]!r} and is no store; create one in a new or empty folder"
            )
    make_folder(layout.root)
    replace_file(layout.marker, encode_document("store", {}))
    for folder in layout.folders:
        make_folder(folder)


def _to_episode(whole: WholeEpisode, label: Label) -> Episode:
    try:
        return Episode.from_header(whole.header, whole.steps, label)
    except EpisodeError as error:
        raise EpisodeDamaged(str(error)) from error
