"""Whether a store still holds exactly what was committed to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from opc_ros.durable import PART
from opc_ros.errors import OpcError, SnapshotNotFound, StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import labels, snapshots
from opc_ros.store.layout import JSON, MCAP, names_in
from opc_ros.store.store import Store
from opc_ros.store.survey import Remains, held, survey


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and one line for each thing that is wrong."""

    episodes: int
    bytes_read: int
    frames_decoded: int
    running: int  # episodes that writers are working on
    problems: tuple[str, ...]


def verify(store: Store, *, is_decoding: bool = False, report: Report = ignore_progress) -> Verification:
    """Hash and read every episode, label, snapshot and tag; with `is_decoding`, every image too."""
    found = survey(store.layout)
    problems = [f"{path.relative_to(store.path)}: does not belong here" for path in found.strays]
    episodes = bytes_read = frames = running = 0
    for number, remains in enumerate(found.remains):
        report(number, len(found.remains), remains.episode_id)
        if not remains.is_committed and _is_running(store, remains):
            running += 1
            continue
        episodes += 1
        try:
            if not remains.is_committed:
                raise StoreError(_describe_remains(remains))
            bytes_read += store.find(remains.episode_id).file_bytes
            for step in store.read(remains.episode_id).steps:
                frames += is_decoding and step.frame.decode() is not None
        except OpcError as error:
            problems.append(str(error))
    report(len(found.remains), len(found.remains))
    ids = Counter(remains.episode_id for remains in found.remains)
    problems += [f"episode {name}: {times} robots have one of this id" for name, times in ids.items() if times > 1]
    problems += _check_labels(store, set(ids)) + _check_snapshots(store)
    return Verification(episodes, bytes_read, frames, running, tuple(problems))


def _is_running(store: Store, remains: Remains) -> bool:
    layout = store.layout
    paths: list[Path] = []
    if MCAP in remains.suffixes:
        paths.append(layout.file(remains.robot, remains.episode_id))
    if MCAP + PART in remains.suffixes:
        paths.append(layout.file_part(remains.robot, remains.episode_id))
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
    for episode_id in names_in(store.layout.labels):
        if episode_id not in known and episode_id not in quarantined:
            problems.append(f"labels/{episode_id}: no such episode")
        for revision in labels.revisions(store.layout, episode_id)[:-1]:  # the newest was read with its episode
            try:
                labels.read_revision(store.layout, episode_id, revision)
            except StoreError as error:
                problems.append(str(error))
        problems += [
            f"labels/{episode_id}/{name}: set aside as unreadable"
            for name in names_in(store.layout.labels / episode_id)
            if not name.endswith(JSON)
        ]
    return problems


def _check_snapshots(store: Store) -> list[str]:
    problems = []
    for snapshot_id in store.snapshots():
        try:
            snapshot = snapshots.read_snapshot(store.layout, snapshot_id)
        except StoreError as error:
            problems.append(str(error))
            continue
        problems += [
            f"snapshot {snapshot_id[:12]}: episode {entry.episode_id} is not in the store any more"
            for entry in snapshot.entries
            if not store.layout.sidecar(entry.robot, entry.episode_id).exists()
        ]
    for tag in snapshots.tag_names(store.layout):
        try:
            digest = snapshots.read_tag(store.layout, tag)
            if digest not in store.snapshots():
                problems.append(f"tag {tag}: snapshot {digest[:12]} is not in the store")
        except SnapshotNotFound as error:
            problems.append(str(error))
    return problems
