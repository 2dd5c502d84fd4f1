"""Copying what one store has and another lacks: robot to lab, lab to bucket, store to backup and back.

Every copied byte is checked against its digest or seal on the way. An episode's file is copied before the sidecar that
commits it, and documents that refer to others after those. So a copy interrupted at any moment is a valid store of what
has arrived so far, and the next run continues from there. Nothing but tags is overwritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

from opc_ros.errors import BlobNotFound, EpisodeDamaged, StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.blobs import BlobFacts, Blobs
from opc_ros.store.layout import JSON, MCAP
from opc_ros.store.sealed import decode_document, encode_document, version_of
from opc_ros.store.shard_copies import PackedFolder

MARKER = "store.json"
AT_ONCE = 8  # concurrent copies

_FOLDER_OF_GROUPS = "snapshots/groups/"


@dataclass(slots=True)
class SyncResult:
    """What a run did; each complaint is one line."""

    episodes: int = 0  # copied by this run
    others: int = 0  # labels, snapshots, parts, tags, quarantine, shards
    bytes_copied: int = 0
    kept: int = 0  # episodes that the target already had
    conflicts: list[str] = field(default_factory=list)  # both stores have it with different content; the target's stays
    damaged: list[str] = field(default_factory=list)  # damaged in the source, so not copied

    @property
    def is_complete(self) -> bool:
        return not self.conflicts and not self.damaged


def sync_blobs(source: Blobs, target: Blobs, *, report: Report = ignore_progress) -> SyncResult:
    """Copy everything committed that the target lacks from the source."""
    return _Sync(source, target, report).run()


class _Sync:
    def __init__(self, source: Blobs, target: Blobs, report: Report) -> None:
        self._source = source
        self._target = target
        self._report = report
        self._done = SyncResult()

    def run(self) -> SyncResult:
        marker = self._source.get(MARKER)
        decode_document(marker, "store", where=f"{self._source.name}/{MARKER}")
        if self._target.head(MARKER) is None:
            self._target.put_if_absent(MARKER, encode_document("store", {}))
        self._copy_version(marker)
        self._copy_episodes()
        self._copy_named("labels/")
        self._copy_named("quarantine/")
        self._copy_named(_FOLDER_OF_GROUPS)
        self._copy_named("snapshots/", but=_FOLDER_OF_GROUPS)
        self._copy_tags()
        return self._done

    def _copy_episodes(self) -> None:
        """Copy folder by folder, so as never to hold a listing of everything."""
        for folder, blobs in _in_folders(self._source.list("episodes/")):
            their = self._target.list(f"{folder}/")
            there = {blob.key: blob for blob in their if blob.key.rpartition("/")[0] == folder}
            self._copy_folder(folder, blobs, there)

    def _copy_folder(self, folder: str, blobs: dict[str, BlobFacts], there: dict[str, BlobFacts]) -> None:
        """Copy shards before the sidecars of their episodes, and files before their sidecars."""
        ours, theirs = PackedFolder(self._source, folder), PackedFolder(self._target, folder)
        commits = sorted(key for key in blobs if key.endswith(JSON))
        missing = [
            key for key in commits if key not in there or not (key_of_file(key) in there or theirs.has_id(name_of(key)))
        ]
        self._done.kept += len(commits) - len(missing)
        for key in commits:
            if key in there:
                self._compare(blobs, there, key)
        shards, size = ours.copy_to(theirs, {name_of(key) for key in missing})
        self._done.others += shards
        self._done.bytes_copied += size
        before = self._done.episodes
        with ThreadPoolExecutor(AT_ONCE) as pool:
            copies = pool.map(lambda key: self._try_episode(key, ours, theirs), missing)
            for number, copied in enumerate(copies):
                self._note(copied)
                self._report(number + 1, len(missing), folder)
        if self._done.episodes > before:
            self._target.announce(folder)

    def _copy_version(self, marker: bytes) -> None:
        """Raise the target's version before it gets shards, so that no program that does not know them opens it."""
        where = MARKER
        if version_of(marker, where) > version_of(self._target.get(MARKER), where):
            self._target.put(MARKER, marker)

    def _compare(self, blobs: dict[str, BlobFacts], there: dict[str, BlobFacts], key: str) -> None:
        """Compare two versions; different lengths settle most cases, digests the rest."""
        file = key_of_file(key)
        same = key in there and blobs[key].size == there[key].size
        if same and (file not in blobs or file not in there or blobs[file].size == there[file].size):
            return
        ours, its = (committed_digest(side.get(key), key) for side in (self._source, self._target))
        if ours != its:
            self._done.conflicts.append(f"{key}: another episode has this id in {self._target.name}")

    def _try_episode(self, key: str, ours: PackedFolder, theirs: PackedFolder) -> int | str:
        """Copy an episode; returns the bytes copied, or reports a complaint."""
        try:
            return copy_episode(self._source, self._target, key, ours, theirs)
        except (EpisodeDamaged, BlobNotFound) as error:
            return str(error)

    def _copy_named(self, prefix: str, *, but: str = "") -> None:
        """Copy files that are small, sealed or named by their digest; an index goes after what it lists."""
        there = {blob.key: blob for blob in self._target.list(prefix)}
        blobs = [blob for blob in self._source.list(prefix) if not but or not blob.key.startswith(but)]
        missing = [blob for blob in blobs if blob.key not in there and not blob.key.endswith((".part", ".damaged"))]
        for blob in blobs:
            other = there.get(blob.key)
            if other is not None and other.size != blob.size:
                self._done.conflicts.append(f"{blob.key}: {self._target.name} has another of this name")
        missing.sort(key=lambda blob: (blob.key.endswith(JSON), blob.key))
        folders = set()
        for number, blob in enumerate(missing):
            self._report(number, len(missing), prefix.rstrip("/"))
            data = self._source.get(blob.key)
            problem = find_damage(blob.key, data)
            if problem:
                self._done.damaged.append(f"{blob.key}: {problem}")
                continue
            if self._target.put_if_absent(blob.key, data):
                self._done.others += 1
                self._done.bytes_copied += len(data)
            elif self._target.get(blob.key) != data:
                self._done.conflicts.append(f"{blob.key}: {self._target.name} has another of this name")
            folders.add(blob.key.rpartition("/")[0])
        if prefix == "labels/":
            for folder in sorted(folders):
                self._target.announce(folder)

    def _copy_tags(self) -> None:
        for blob in self._source.list("tags/"):
            data = self._source.get(blob.key)
            try:
                is_same = self._target.get(blob.key) == data
            except BlobNotFound:
                is_same = False
            if not is_same:
                self._target.put(blob.key, data)
                self._done.others += 1

    def _note(self, copied: int | str) -> None:
        if isinstance(copied, str):
            self._done.damaged.append(copied)
        else:
            self._done.episodes += 1
            self._done.bytes_copied += copied


def copy_episode(
    source: Blobs, target: Blobs, key: str, ours: PackedFolder | None = None, theirs: PackedFolder | None = None
) -> int:
    """Copy an episode's file, then the sidecar with this key, which commits it; returns the number of bytes.

    Either may already be there from an interrupted run, and the bytes may be in a shard on either side. Raises
    EpisodeDamaged if the source's differs from what was committed, or the target has another episode with this id.
    """
    sidecar = source.get(key)
    digest = committed_digest(sidecar, key)
    copied = len(sidecar)
    if theirs is None or not theirs.has(name_of(key), digest):
        copied += _copy_file(source, target, key, digest, ours)
    if not target.put_if_absent(key, sidecar) and committed_digest(target.get(key), key) != digest:
        raise EpisodeDamaged(f"{key}: another episode has this id in {target.name}")
    return copied


def _copy_file(source: Blobs, target: Blobs, key: str, digest: str, ours: PackedFolder | None) -> int:
    file = key_of_file(key)
    data = ours.read(name_of(key), digest) if ours is not None else None
    if data is None:
        try:
            data = source.get(file)
        except BlobNotFound as error:
            if ours is None or not ours.has(name_of(key), digest):
                raise
            raise EpisodeDamaged(f"{key}: its bytes in a shard of {source.name} are not as committed") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise EpisodeDamaged(f"{file}: in {source.name} it is not what was committed")
    if not target.put_if_absent(file, data) and hashlib.sha256(target.get(file)).hexdigest() != digest:
        raise EpisodeDamaged(f"{file}: {target.name} has another file of this name")
    return len(data)


def key_of_file(sidecar_key: str) -> str:
    return sidecar_key.removesuffix(JSON) + MCAP


def name_of(sidecar_key: str) -> str:
    return sidecar_key.rpartition("/")[2].removesuffix(JSON)


def find_damage(key: str, data: bytes) -> str:
    """Why bytes differ from what their key promises; empty if they do not, or if that cannot be told."""
    folder, _, name = key.rpartition("/")
    try:
        if folder.startswith("snapshots"):
            stem = name.removesuffix(JSON)
            return "" if hashlib.sha256(data).hexdigest() == stem else "its bytes are not those of its name"
        if folder.startswith("labels"):
            decode_document(data, "label", where=key)
        elif folder.startswith("quarantine") and name.endswith(JSON) and not name.endswith(f".sidecar{JSON}"):
            decode_document(data, "quarantine", where=key)
    except StoreError as error:
        return str(error).removeprefix(f"{key}: ")
    return ""


def committed_digest(sidecar: bytes, key: str) -> str:
    try:
        digest = decode_document(sidecar, "episode", where=key).get("file_sha256")
    except StoreError as error:
        raise EpisodeDamaged(str(error)) from error
    if not isinstance(digest, str):
        raise EpisodeDamaged(f"{key}: names no sha256")
    return digest


def _in_folders(blobs: Iterator[BlobFacts]) -> Iterator[tuple[str, dict[str, BlobFacts]]]:
    """A flat store's listing may have a robot's own files before or after those of its days, so a folder may recur."""
    for folder, found in groupby(blobs, key=lambda blob: blob.key.rpartition("/")[0]):
        yield folder, {blob.key: blob for blob in found if blob.key.endswith((JSON, MCAP))}
