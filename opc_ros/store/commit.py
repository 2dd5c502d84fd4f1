"""How an episode's file gets its name: claimed by one writer, checked, and committed by its sidecar."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store.documents import encode_document
from opc_ros.store.durable import is_same_file, make_folder, wait_for_lock, write_all, write_out
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.layout import Layout
from opc_ros.store.records import CommittedEpisode, EpisodeHeader, LabelBody, Sidecar


class FileSink:
    """An open file that hashes what is written to it; each write reaches the kernel at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._hash = hashlib.sha256()
        self._position = 0

    def write(self, data: bytes) -> int:
        write_all(self.descriptor, data)
        self._hash.update(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def sha256(self) -> str:
        return self._hash.hexdigest()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


def claim(layout: Layout, header: EpisodeHeader) -> FileSink:
    """Take the episode's name and hold its file, so that nobody mistakes it for a dead writer's."""
    make_folder(layout.episodes / header.robot)
    part = layout.file_part(header.robot, header.id)
    while True:
        try:
            sink = FileSink(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            raise StoreError(
                f"episode {header.id}: {part} exists: another writer has it, or one died: run `opc store recover`"
            ) from None
        wait_for_lock(sink.descriptor)
        if is_same_file(part, sink.descriptor):
            break
        sink.close()
    taken = _find_taken(layout, header)
    if taken is not None:
        part.unlink()
        sink.close()
        raise StoreError(f"episode {header.id}: {taken} exists, expected an id that no episode of the store has")
    return sink


def commit_file(layout: Layout, header: EpisodeHeader, sink: FileSink, *, now_ns: int) -> CommittedEpisode:
    """Check the finished `.part` file and commit it.

    The bytes of both files are on their way to the disk before either gets its final name, and the sidecar gets its
    name last. One common wait for the disk then covers the files and their names: three waits in a row would cost
    three commits of the file system's journal. A power cut within that wait leaves the episode out, or with a file
    that does not match its sidecar's hash, which `recover` puts into quarantine.
    """
    part, file = layout.file_part(header.robot, header.id), layout.file(header.robot, header.id)
    sidecar_part, sidecar_file = layout.sidecar_part(header.robot, header.id), layout.sidecar(header.robot, header.id)
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="disk") as disk:
        writing = disk.submit(write_out, sink.descriptor)
        sidecar = describe(_read_back(part, header, sink.sha256()), sink.sha256(), sink.tell(), committed_ns=now_ns)
        descriptor = os.open(sidecar_part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        folder = os.open(part.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            write_all(descriptor, encode_sidecar(sidecar))
            write_out(descriptor)
            writing.result()
            part.rename(file)
            sidecar_part.rename(sidecar_file)
            waits = [disk.submit(os.fsync, one) for one in (sink.descriptor, descriptor)]
            os.fsync(folder)
            for wait in waits:
                wait.result()
        except OSError:
            _take_back(part, file, sidecar_part, sidecar_file)
            raise
        finally:
            os.close(descriptor)
            os.close(folder)
    return sidecar.to_committed()


def describe(whole: WholeEpisode, file_sha256: str, file_bytes: int, *, committed_ns: int) -> Sidecar:
    """The sidecar that commits an episode, all of it from the episode's own file."""
    header = whole.header
    return Sidecar(
        id=header.id,
        robot=header.robot,
        behaviour_policy=header.behaviour_policy,
        object_set=header.object_set,
        permit_id=header.permit_id,
        began_ns=header.began_ns,
        duration_ns=max(0, whole.ended_ns - header.began_ns),
        steps=len(whole.steps),
        label=LabelBody.of(whole.label),
        file_sha256=file_sha256,
        file_bytes=file_bytes,
        health=whole.health,
        committed_ns=committed_ns,
    )


def encode_sidecar(sidecar: Sidecar) -> bytes:
    return encode_document("episode", asdict(sidecar))


def _read_back(path: Path, header: EpisodeHeader, file_sha256: str) -> WholeEpisode:
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != file_sha256:
        raise EpisodeDamaged(f"episode {header.id}: {path} reads back as {found}, written was {file_sha256}")
    whole = read_whole(data, where=f"episode {header.id}", are_crcs_checked=False)
    if whole.header != header:
        raise EpisodeDamaged(f"episode {header.id}: {path} reads back with header {whole.header}")
    return whole


def _take_back(part: Path, file: Path, sidecar_part: Path, sidecar_file: Path) -> None:
    """The disk refused: the episode must not look committed."""
    sidecar_file.unlink(missing_ok=True)
    sidecar_part.unlink(missing_ok=True)
    if file.exists():
        file.rename(part)


def _find_taken(layout: Layout, header: EpisodeHeader) -> Path | None:
    """Looked up after the claim, so that of two writers with one id at least one sees the other."""
    for robot in layout.robots():
        paths = [layout.file(robot, header.id), layout.sidecar(robot, header.id)]
        if robot != header.robot:
            paths.append(layout.file_part(robot, header.id))
        for path in paths:
            if path.exists():
                return path
    return None
