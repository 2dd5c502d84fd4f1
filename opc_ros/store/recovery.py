"""Repairing a store after a crash: commit what is complete, quarantine what is not, and lose nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from opc_ros.durable import PART, replace_file, store_error, sync_folder
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import labels, snapshots
from opc_ros.store.commit import describe_whole, encode_sidecar
from opc_ros.store.episode_reading import read_whole, salvage
from opc_ros.store.layout import JSON, MCAP
from opc_ros.store.quarantine import move_to_quarantine
from opc_ros.store.records import Sidecar
from opc_ros.store.shard_checks import rebuild_indexes
from opc_ros.store.shards import Slice
from opc_ros.store.sidecars import read_sidecar
from opc_ros.store.store import Store
from opc_ros.store.survey import Remains, held, stale_parts, survey


@dataclass(slots=True)
class Recovery:
    """What `recover` did; each line names the episode or file."""

    completed: list[str] = field(default_factory=list)  # complete but uncommitted episodes, now committed
    quarantined: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # files that are empty or contain nothing useful
    set_aside: list[str] = field(default_factory=list)  # unreadable labels and snapshots, renamed to .damaged
    running: list[str] = field(default_factory=list)  # in use by writers, and left alone

    @property
    def is_clean(self) -> bool:
        return not (self.completed or self.quarantined or self.removed or self.set_aside)


def recover(
    store: Store, *, settle_s: float = 60.0, is_quick: bool = False, report: Report = ignore_progress
) -> Recovery:
    """Leave only complete committed episodes, and those that writers are working on.

    `is_quick` trusts committed files of the right size instead of hashing them. `settle_s` is how long a file must stay
    unchanged before it counts as abandoned, on file systems that cannot tell whether its writer is alive.
    """
    store = store.writable
    done = Recovery()
    refused: OSError | None = None
    try:
        # Free space first: on a full disk nothing else may work.
        for path in stale_parts(store.layout, settle_s=settle_s):
            path.unlink(missing_ok=True)
            done.removed.append(str(path.relative_to(store.path)))
        done.completed += rebuild_indexes(store.layout)
        found = survey(store.layout)
        for number, remains in enumerate(found.remains):
            report(number, len(found.remains), remains.episode_id)
            try:
                _recover_episode(store, remains, done, settle_s=settle_s, is_quick=is_quick)
            except OSError as error:
                if not (isinstance(error, FileNotFoundError) and _is_packed(store, remains)):
                    refused = refused or error  # continue with the others
        report(len(found.remains), len(found.remains))
        _set_aside_labels(store, done)
        _set_aside_snapshots(store, done)
        _set_aside_parts(store, done)
    except OSError as error:
        refused = refused or error
    if refused is not None:
        raise store_error(f"{store.path}: cannot recover", refused) from refused
    return done


def _recover_episode(store: Store, remains: Remains, done: Recovery, *, settle_s: float, is_quick: bool) -> None:
    layout, place, episode_id = store.layout, remains.place, remains.episode_id
    file, part = layout.file(place), layout.file_part(place)
    data_file = file if MCAP in remains.suffixes else part
    if not remains.suffixes & {MCAP, MCAP + PART}:
        _recover_lone_sidecar(store, remains, done, is_quick=is_quick)
        return
    with held(data_file, settle_s=settle_s) as is_ours:
        if not is_ours:
            if data_file.exists():
                done.running.append(episode_id)
            return
        # Its writer may have finished since the survey.
        if layout.sidecar(place).exists():
            _check_committed(store, remains, data_file, done, is_quick=is_quick)
        else:
            _recover_uncommitted(store, remains, data_file, done)
        _remove(store, layout.sidecar_part(place), done)
    if data_file == file and MCAP + PART in remains.suffixes:
        _recover_second_file(store, remains, part, done, settle_s=settle_s)


def _recover_second_file(store: Store, remains: Remains, part: Path, done: Recovery, *, settle_s: float) -> None:
    """Handle a second file of an id: a writer that died while checking the id leaves it empty; otherwise keep it."""
    with held(part, settle_s=settle_s) as is_ours:
        if not is_ours:
            return
        if part.stat().st_size == 0:
            _remove(store, part, done)
        else:
            _quarantine(store, remains, (part,), "a second file of an id that was taken", done)


def _check_committed(store: Store, remains: Remains, data_file: Path, done: Recovery, *, is_quick: bool) -> None:
    place = remains.place
    sidecar = store.layout.sidecar(place)
    try:
        committed = read_sidecar(store.layout, place)
    except EpisodeDamaged as error:
        _rebuild_sidecar(store, remains, data_file, str(error), done)
        return
    try:
        if is_quick and data_file.stat().st_size == committed.file_bytes:
            return
        found = hashlib.sha256(data_file.read_bytes()).hexdigest()
    except FileNotFoundError:
        return  # removed a moment ago, because a shard has it
    if found != committed.file_sha256:
        reason = f"its file has sha256 {found}, committed was {committed.file_sha256}"
        is_packed = _find_packed(store, remains, committed.file_sha256) is not None
        paths = (data_file,) if is_packed else (data_file, sidecar)
        _quarantine(store, remains, paths, f"{reason}{'; a shard has it whole' if is_packed else ''}", done)
    elif data_file != store.layout.file(place):
        data_file.rename(store.layout.file(place))
        sync_folder(data_file.parent)
        done.completed.append(f"{place.episode_id}: its file had not got its name yet")


def _rebuild_sidecar(store: Store, remains: Remains, data_file: Path, problem: str, done: Recovery) -> None:
    """Rebuild a damaged sidecar from the episode's own file, which has the same information."""
    sidecar = store.layout.sidecar(remains.place)
    if _find_problem(data_file, remains) is not None:
        _quarantine(store, remains, (data_file, sidecar), problem, done)
        return
    _quarantine(store, remains, (sidecar,), problem, done)
    _complete(store, remains, data_file, "its sidecar was damaged", done)


def _recover_uncommitted(store: Store, remains: Remains, data_file: Path, done: Recovery) -> None:
    if data_file.stat().st_size == 0:
        _remove(store, data_file, done)
        return
    problem = _find_problem(data_file, remains)
    if problem is None:
        _complete(store, remains, data_file, "its writer died before its sidecar was written", done)
    else:
        _quarantine(store, remains, (data_file,), f"its writer died or its file was damaged: {problem}", done)


def _recover_lone_sidecar(store: Store, remains: Remains, done: Recovery, *, is_quick: bool) -> None:
    place = remains.place
    sidecar = store.layout.sidecar(place)
    if JSON in remains.suffixes and sidecar.exists() and not store.layout.file(place).exists():
        versions = store.contents.shards.of(place.home).versions(place.episode_id)
        if versions:
            _check_packed(store, remains, versions, done, is_quick=is_quick)
        else:
            _quarantine(store, remains, (sidecar,), "its sidecar has no file", done)
    _remove(store, store.layout.sidecar_part(place), done)


def _check_packed(
    store: Store, remains: Remains, versions: dict[str, Slice], done: Recovery, *, is_quick: bool
) -> None:
    """Check an episode whose bytes are only in a shard; if they are damaged, what there is goes to quarantine."""
    place, sidecar = remains.place, store.layout.sidecar(remains.place)
    try:
        digest, problem = read_sidecar(store.layout, place).file_sha256, ""
    except EpisodeDamaged as error:
        digest, problem = next(iter(versions)), str(error)
    if not problem and is_quick and digest in versions:
        return
    data = _find_packed(store, remains, digest)
    if data is not None and not problem:
        return
    if data is not None:
        _quarantine(store, remains, (sidecar,), problem, done)
        why = "its sidecar was damaged"
        replace_file(sidecar, encode_sidecar(_describe_recovered(store, data, place.episode_id, why)))
        done.completed.append(f"{place.episode_id}: {why}")
        return
    file, packed = store.layout.file(place), versions.get(digest, next(iter(versions.values())))
    replace_file(file, store.contents.blobs.range(packed.key, packed.offset, packed.length))
    _quarantine(store, remains, (file, sidecar), f"its bytes in shard {packed.key} are not as committed", done)


def _is_packed(store: Store, remains: Remains) -> bool:
    """Whether a file may be missing because `opc store pack --drop` is running."""
    return store.contents.shards.of(remains.place.home).has_id(remains.episode_id)


def _find_packed(store: Store, remains: Remains, file_sha256: str) -> bytes | None:
    """The bytes from a shard, if one has them intact."""
    packed = store.contents.shards.find(remains.place, file_sha256)
    try:
        return store.contents.read_packed(packed, file_sha256) if packed is not None else None
    except EpisodeDamaged:
        return None


def _find_problem(data_file: Path, remains: Remains) -> str | None:
    try:
        whole = read_whole(data_file.read_bytes(), where=remains.episode_id)
    except EpisodeDamaged as error:
        return str(error)
    if (whole.header.robot, whole.header.id) != (remains.robot, remains.episode_id):
        return f"{remains.episode_id}: holds episode {whole.header.id} of robot {whole.header.robot}"
    return None


def _complete(store: Store, remains: Remains, data_file: Path, why: str, done: Recovery) -> None:
    sidecar = _describe_recovered(store, data_file.read_bytes(), remains.episode_id, why)
    with data_file.open("rb") as file:
        os.fsync(file.fileno())
    file_path = store.layout.file(remains.place)
    if data_file != file_path:
        data_file.rename(file_path)
    replace_file(store.layout.sidecar(remains.place), encode_sidecar(sidecar))
    done.completed.append(f"{remains.episode_id}: {why}")


def _describe_recovered(store: Store, data: bytes, episode_id: str, why: str) -> Sidecar:
    whole = read_whole(data, where=episode_id)
    sidecar = describe_whole(
        whole, file_sha256=hashlib.sha256(data).hexdigest(), file_bytes=len(data), committed_ns=store.now()
    )
    return dataclasses.replace(sidecar, health=(*sidecar.health, f"recovered: {why}"))


def _quarantine(store: Store, remains: Remains, paths: tuple[Path, ...], reason: str, done: Recovery) -> None:
    present = tuple(path for path in paths if path.exists())
    steps = 0
    for path in present:
        if MCAP in path.suffixes:
            steps = len(salvage(path.read_bytes())[0].steps)
    move_to_quarantine(
        store.layout,
        present,
        episode_id=remains.episode_id,
        robot=remains.robot,
        reason=reason,
        steps=steps,
        health=(),
        now_ns=store.now(),
    )
    done.quarantined.append(f"{remains.episode_id}: {reason}")


def _remove(store: Store, path: Path, done: Recovery) -> None:
    if path.exists():
        path.unlink()
        done.removed.append(str(path.relative_to(store.path)))


def _set_aside_labels(store: Store, done: Recovery) -> None:
    for file in list(labels.all_label_files(store.layout)):
        if file.is_damaged:
            continue
        try:
            labels.read_label(file.path, file.episode_id, file.revision)
        except EpisodeDamaged:
            _set_aside(store, file.path, done)


def _set_aside_snapshots(store: Store, done: Recovery) -> None:
    for snapshot_id in snapshots.snapshot_ids(store.layout):
        try:
            for _ in snapshots.read_snapshot(store.layout, snapshot_id).entries:
                pass  # each part is checked when it is read
        except StoreError:
            _set_aside(store, store.layout.snapshots / f"{snapshot_id}{JSON}", done)


def _set_aside_parts(store: Store, done: Recovery) -> None:
    for path in sorted(store.layout.snapshot_groups.rglob(f"*{JSON}")):
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.stem:
            _set_aside(store, path, done)


def _set_aside(store: Store, path: Path, done: Recovery) -> None:
    path.rename(path.with_suffix(labels.DAMAGED))
    sync_folder(path.parent)
    done.set_aside.append(str(path.relative_to(store.path)))
