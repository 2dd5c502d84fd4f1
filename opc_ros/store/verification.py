"""Check whether a store still contains exactly what was committed to it."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from opc_ros.durable import PART
from opc_ros.errors import OpcError, SnapshotNotFound, StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import labels, snapshots
from opc_ros.store.layout import JSON, MCAP, Place
from opc_ros.store.records import CommittedEpisode
from opc_ros.store.shard_checks import check_shards
from opc_ros.store.store import Store
from opc_ros.store.survey import Remains, held, survey


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and one line for each problem."""

    episodes: int
    bytes_read: int
    frames_decoded: int
    running: int  # episodes that are still being written
    problems: tuple[str, ...]


def verify(store: Store, *, is_decoding: bool = False, report: Report = ignore_progress) -> Verification:
    """Hash and read every episode, label, snapshot and tag; with `is_decoding`, every image too."""
    amiss = store.look_at_everything()
    found = survey(store.layout)
    problems = amiss + [f"{path.relative_to(store.path)}: does not belong here" for path in found.strays]
    episodes = bytes_read = frames = running = 0
    read: dict[Place, CommittedEpisode] = {}
    for number, remains in enumerate(found.remains):
        report(number, len(found.remains), remains.episode_id)
        is_committed = remains.is_committed or _is_elsewhere(store, remains)
        if not is_committed and _is_running(store, remains):
            running += 1
            continue
        episodes += 1
        try:
            if not is_committed:
                raise StoreError(_describe_remains(remains))
            committed = store.read_committed(remains.place)
            bytes_read += committed.file_bytes
            for step in store.read_place(remains.place).steps:
                frames += is_decoding and step.frame.decode() is not None
            problems += _check_second_copy(store, remains, committed.file_sha256)
            read[remains.place] = committed
        except OpcError as error:
            problems.append(str(error))
    report(len(found.remains), len(found.remains))
    ids = Counter(remains.episode_id for remains in found.remains)
    problems += [f"episode {name}: {times} places have one of this id" for name, times in ids.items() if times > 1]
    problems += check_shards(store.contents.blobs)
    problems += _check_catalogue(store, read) + _check_labels(store, set(ids)) + _check_snapshots(store, set(ids))
    return Verification(episodes, bytes_read, frames, running, tuple(problems))


def _is_elsewhere(store: Store, remains: Remains) -> bool:
    """Whether the bytes need not be beside the sidecar, because they are in a bucket or a shard."""
    if JSON not in remains.suffixes:
        return False
    return not store.layout.has_files or (
        remains.suffixes == {JSON} and store.contents.shards.of(remains.place.home).has_id(remains.episode_id)
    )


def _check_second_copy(store: Store, remains: Remains, file_sha256: str) -> list[str]:
    """Check the file of a packed episode, which was itself read from its shard."""
    if not (remains.is_committed and store.layout.has_files):
        return []
    if store.contents.shards.find(remains.place, file_sha256, is_fresh=False) is None:
        return []
    path = store.layout.file(remains.place)
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return []  # removed a moment ago
    if found == file_sha256:
        return []
    return [f"episode {remains.episode_id}: {path} has sha256 {found}, committed was {file_sha256}; a shard has it too"]


def _check_catalogue(store: Store, read: dict[Place, CommittedEpisode]) -> list[str]:
    """Check the catalogue against the files, which are right."""
    return [
        f"catalogue: episode {episode.id} does not match its files: remove {store.layout.catalogue}, it will be rebuilt"
        for segment in store.catalogue.segments()
        for episode in segment
        if read.get(Place(segment.home, episode.id), episode) != episode
    ]


def _is_running(store: Store, remains: Remains) -> bool:
    layout = store.layout
    paths: list[Path] = []
    if MCAP in remains.suffixes:
        paths.append(layout.file(remains.place))
    if MCAP + PART in remains.suffixes:
        paths.append(layout.file_part(remains.place))
    for path in paths:
        with held(path, settle_s=60.0) as is_ours:
            # Gone by now: its writer has just renamed it.
            if not is_ours:
                return True
    return False


def _describe_remains(remains: Remains) -> str:
    names = ", ".join(sorted(f"{remains.episode_id}{suffix}" for suffix in remains.suffixes))
    return f"episode {remains.episode_id}: {names} of robot {remains.robot} alone: `opc store recover` puts it right"


def _check_labels(store: Store, known: set[str]) -> list[str]:
    problems = []
    quarantined = {entry.episode_id for entry in store.quarantined()[0]}
    told: set[str] = set()
    for file in labels.all_label_files(store.layout):
        name = file.path.relative_to(store.path)
        if file.episode_id not in known | quarantined | told:
            told.add(file.episode_id)
            problems.append(f"{name}: no such episode")
        if file.is_damaged:
            problems.append(f"{name}: set aside as unreadable")
            continue
        try:
            labels.read_label(file.path, file.episode_id, file.revision)
        except StoreError as error:
            problems.append(str(error))
    return problems


def _check_snapshots(store: Store, known: set[str]) -> list[str]:
    problems = []
    for snapshot_id in store.snapshots():
        try:
            problems += [
                f"snapshot {snapshot_id[:12]}: episode {entry.episode_id} is not in the store any more"
                for entry in snapshots.read_snapshot(store.layout, snapshot_id).entries
                if entry.episode_id not in known
            ]
        except StoreError as error:
            problems.append(str(error))
    for tag in snapshots.tag_names(store.layout):
        try:
            digest = snapshots.read_tag(store.layout, tag)
            if digest not in store.snapshots():
                problems.append(f"tag {tag}: snapshot {digest[:12]} is not in the store")
        except SnapshotNotFound as error:
            problems.append(str(error))
    return problems
