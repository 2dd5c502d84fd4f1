"""Append-only store of validated grasp episodes."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from opc_ros.config import parse_config
from opc_ros.durable import PART, make_folder, replace_file, store_error
from opc_ros.episode import Episode, EpisodeHeader, Label, check_text
from opc_ros.errors import EpisodeDamaged, EpisodeError, EpisodeNotFound, StoreError
from opc_ros.store import labels, snapshots
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.layout import Layout
from opc_ros.store.quarantine import Quarantined, list_quarantine
from opc_ros.store.records import CommittedEpisode, Sidecar
from opc_ros.store.sealed import encode_document, read_document
from opc_ros.store.snapshots import EVERYTHING, Selection, Snapshot, SnapshotEntry
from opc_ros.store.writer import EpisodeWriter

READ_AHEAD = 2  # episodes


def open_store(path: Path | str, *, create: bool = False, now: Callable[[], int] = time.time_ns) -> Store:
    """Open a store's folder; with `create`, make one where there is none yet."""
    layout = Layout(Path(path).expanduser().absolute())
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

    def __init__(self, layout: Layout, now: Callable[[], int]) -> None:
        self._layout = layout
        self._now = now

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is held open between calls."""

    @property
    def path(self) -> Path:
        return self._layout.root

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def now(self) -> Callable[[], int]:
        return self._now

    def begin(self, header: EpisodeHeader) -> EpisodeWriter:
        """Start recording an episode; its id must be new to the store."""
        return EpisodeWriter(self._layout, header, self._now)

    def append(self, episode: Episode, *, health: tuple[str, ...] = ()) -> CommittedEpisode:
        """Write and commit an episode that is already whole."""
        writer = self.begin(
            EpisodeHeader(
                id=episode.id,
                robot=episode.robot,
                behaviour_policy=episode.behaviour_policy,
                began_ns=episode.started_ns,
                object_set=episode.object_set,
                permit_id=episode.permit_id,
                task=episode.task,
                seed=episode.seed,
            )
        )
        try:
            for step in episode.steps:
                writer.add_step(step)
            return writer.commit(episode.label, health=health)
        except BaseException:
            writer.discard()
            raise

    def episodes(self, *, on_damage: Callable[[EpisodeDamaged], None] | None = None) -> Iterator[CommittedEpisode]:
        """Every committed episode with its newest label, by robot and id.

        An unreadable sidecar or label raises EpisodeDamaged, or goes to `on_damage` and is left out.
        """
        relabelled = set(self._relabelled())
        for robot, episode_id in self._layout.sidecars():
            try:
                committed = self._read_committed(robot, episode_id)
                yield self._with_newest_label(committed) if episode_id in relabelled else committed
            except EpisodeDamaged as error:
                if on_damage is None:
                    raise
                on_damage(error)

    def find(self, episode_id: str) -> CommittedEpisode:
        """One committed episode with its newest label."""
        robot = self._layout.robot_of(episode_id)
        if robot is None:
            raise EpisodeNotFound(f"episode {episode_id}: not in {self.path}")
        return self._with_newest_label(self._read_committed(robot, episode_id))

    def read(self, episode_id: str) -> Episode:
        """An episode with its newest label, its bytes checked against what was committed."""
        committed = self.find(episode_id)
        whole = self._read_file(committed.robot, committed.id, committed.file_sha256)
        if len(whole.steps) != committed.steps:
            raise EpisodeDamaged(
                f"episode {episode_id}: file has {len(whole.steps)} steps, sidecar says {committed.steps}"
            )
        if (whole.header.task, whole.header.seed) != (committed.task, committed.seed):
            raise EpisodeDamaged(
                f"episode {episode_id}: file is of task {whole.header.task} with seed {whole.header.seed}, "
                f"sidecar says {committed.task} with {committed.seed}"
            )
        return _to_episode(whole, committed.label)

    def label(self, episode_id: str, label: Label, *, note: str = "") -> int:
        """Give an episode a newer label; returns its revision. An unlabelled Label withdraws the one before."""
        if self._layout.robot_of(episode_id) is None:
            raise EpisodeNotFound(f"episode {episode_id}: not in {self.path}")
        for text in (note, label.labeller):
            check_text(f"episode {episode_id}", text)
        try:
            return labels.append_label(self._layout, episode_id, label, note=note, now_ns=self._now())
        except OSError as error:
            raise store_error(f"episode {episode_id}: cannot label", error) from error

    def take_snapshot(self, selection: Selection = EVERYTHING, *, tag: str = "") -> Snapshot:
        """Fix which labelled episodes match now; the same set always has the same id."""
        snapshot, data = snapshots.compose_snapshot(self.episodes(), selection)
        try:
            snapshots.write_snapshot(self._layout, snapshot, data)
            if tag:
                snapshots.write_tag(self._layout, tag, snapshot.id)
        except OSError as error:
            raise store_error(f"snapshot {snapshot.id}: cannot write", error) from error
        return snapshot

    def snapshot(self, ref: str) -> Snapshot:
        """By digest, unique beginning of a digest, or tag."""
        return snapshots.read_snapshot(self._layout, snapshots.resolve(self._layout, ref))

    def snapshots(self) -> list[str]:
        """Digests of all snapshots."""
        return snapshots.snapshot_ids(self._layout)

    def tags(self) -> dict[str, str]:
        """Tags and the digests they point to."""
        return {name: snapshots.read_tag(self._layout, name) for name in snapshots.tag_names(self._layout)}

    def read_entry(self, entry: SnapshotEntry) -> Episode:
        """One episode of a snapshot: exactly the pinned bytes, with the pinned label."""
        label = self._pinned_label(entry)
        if label.is_success is not entry.is_success:
            raise EpisodeDamaged(
                f"episode {entry.episode_id}: label revision {entry.label_revision} says {label.is_success}, "
                f"the snapshot {entry.is_success}"
            )
        return _to_episode(self._read_file(entry.robot, entry.episode_id, entry.file_sha256), label)

    def read_snapshot(self, snapshot: Snapshot) -> Iterator[Episode]:
        """All episodes of a snapshot in canonical order; the first that cannot be read raises."""
        for _, episode in self.read_each(snapshot.entries):
            if isinstance(episode, StoreError):
                raise episode
            yield episode

    def read_each(self, entries: Iterable[SnapshotEntry]) -> Iterator[tuple[SnapshotEntry, Episode | StoreError]]:
        """Each entry with its episode, or with why it cannot be read; the next are read while the caller works."""
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

    def _try_entry(self, entry: SnapshotEntry) -> Episode | StoreError:
        try:
            return self.read_entry(entry)
        except StoreError as error:
            return error

    def _relabelled(self) -> list[str]:
        try:
            return [entry.name for entry in self._layout.labels.iterdir()]
        except FileNotFoundError:
            return []

    def read_sidecar(self, robot: str, episode_id: str) -> CommittedEpisode:
        """A committed episode with the label it was committed with."""
        path = self._layout.sidecar(robot, episode_id)
        try:
            body = read_document(path, "episode")
            committed = parse_config(body, Sidecar, where=str(path), error=StoreError).to_committed()
        except StoreError as error:
            raise EpisodeDamaged(f"episode {episode_id}: {error}; `opc store recover` repairs it") from error
        if (committed.robot, committed.id) != (robot, episode_id):
            raise EpisodeDamaged(
                f"episode {episode_id}: {path} is of episode {committed.id} of robot {committed.robot}"
            )
        return committed

    def _read_committed(self, robot: str, episode_id: str) -> CommittedEpisode:
        """Also see that the file is there in its full length: cheap, and it keeps broken episodes out of snapshots."""
        committed = self.read_sidecar(robot, episode_id)
        path = self._layout.file(robot, episode_id)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise EpisodeDamaged(f"episode {episode_id}: its file {path}: {error.strerror or error}") from error
        if size != committed.file_bytes:
            raise EpisodeDamaged(
                f"episode {episode_id}: {path} has {size} bytes, committed were {committed.file_bytes}"
            )
        return committed

    def _with_newest_label(self, committed: CommittedEpisode) -> CommittedEpisode:
        numbers = labels.revisions(self._layout, committed.id)
        if not numbers:
            return committed
        newest = labels.read_revision(self._layout, committed.id, numbers[-1])
        return dataclasses.replace(committed, label=newest.label, label_revision=newest.revision)

    def _pinned_label(self, entry: SnapshotEntry) -> Label:
        if entry.label_revision > 0:
            return labels.read_revision(self._layout, entry.episode_id, entry.label_revision).label
        if not self._layout.sidecar(entry.robot, entry.episode_id).exists():
            raise EpisodeNotFound(f"episode {entry.episode_id} of robot {entry.robot}: not in {self.path}")
        return self.read_sidecar(entry.robot, entry.episode_id).label

    def _read_file(self, robot: str, episode_id: str, file_sha256: str) -> WholeEpisode:
        path = self._layout.file(robot, episode_id)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise EpisodeDamaged(f"episode {episode_id}: its file {path} is gone") from None
        except OSError as error:
            raise EpisodeDamaged(f"episode {episode_id}: {path}: {error.strerror or error}") from error
        found = hashlib.sha256(data).hexdigest()
        if found != file_sha256:
            raise EpisodeDamaged(f"episode {episode_id}: {path} has sha256 {found}, committed was {file_sha256}")
        whole = read_whole(data, where=f"episode {episode_id}", are_crcs_checked=False)
        if (whole.header.robot, whole.header.id) != (robot, episode_id):
            raise EpisodeDamaged(f"episode {episode_id}: {path} holds episode {whole.header.id}")
        return whole


def _create(layout: Layout) -> None:
    """The marker comes first, so that two processes creating at once do not take each other for a stranger."""
    own = {layout.marker.name, *(folder.name for folder in layout.folders)}
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
    header = whole.header
    try:
        return Episode(
            id=header.id,
            robot=header.robot,
            behaviour_policy=header.behaviour_policy,
            steps=whole.steps,
            label=label,
            object_set=header.object_set,
            permit_id=header.permit_id,
            task=header.task,
            seed=header.seed,
        )
    except EpisodeError as error:
        raise EpisodeDamaged(str(error)) from error
