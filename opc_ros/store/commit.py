"""How an episode's file gets its name: claimed by one writer, checked, and committed by its sidecar."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from opc_ros.durable import (
    PART,
    begin_writing_out,
    is_same_file,
    make_folder,
    sync_together,
    wait_for_lock,
    write_all,
    write_out,
    write_pieces,
)
from opc_ros.episode import EpisodeHeader, Label
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store import labels
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.layout import JSON, MCAP, Home, Place, StoreLayout, day_of
from opc_ros.store.records import CommittedEpisode, Sidecar
from opc_ros.store.sealed import encode_document
from opc_ros.task import GRASPING

LARGE_BYTES = 64 * 1024

_SIDECAR_FIELDS, _LABEL_FIELDS = (tuple(field.name for field in fields(kind)) for kind in (Sidecar, Label))


class FileSink:
    """An open file that remembers and hashes what is written to it; large pieces go to the kernel at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._hash = hashlib.sha256()
        self._written: list[bytes] = []  # kept to compare with what is read back
        self._waiting: list[bytes] = []  # not passed to the kernel yet
        self._position = 0

    def writelines(self, pieces: Sequence[bytes]) -> None:
        size = sum(map(len, pieces))
        self._waiting += pieces
        self._position += size
        if size >= LARGE_BYTES:
            self.flush()

    def flush(self) -> None:
        pieces, self._waiting = self._waiting, []
        write_pieces(self.descriptor, pieces)
        for piece in pieces:
            self._hash.update(piece)
        self._written += pieces

    def tell(self) -> int:
        return self._position

    def sha256(self) -> str:
        """Digest of what was flushed."""
        return self._hash.hexdigest()

    def has_written(self, data: bytes) -> bool:
        """Whether these are exactly the bytes that were flushed."""
        at = 0
        for piece in self._written:
            if not data.startswith(piece, at):
                return False
            at += len(piece)
        return at == len(data)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


def place_for(header: EpisodeHeader) -> Place:
    """Where a new episode goes: to the others of its robot and day."""
    return Place(Home(header.robot, day_of(header.began_ns)), header.id)


def claim(layout: StoreLayout, header: EpisodeHeader, find_committed: Callable[[str], Place | None]) -> FileSink:
    """Claim the episode's name and lock its file, so that nobody takes it for the file of a dead writer."""
    place = place_for(header)
    make_folder(layout.home_folder(place.home))
    part = layout.file_part(place)
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
    try:
        taken = _find_taken(layout, place, find_committed)
    except BaseException:
        part.unlink()
        raise
    if taken is not None:
        part.unlink()
        sink.close()
        raise StoreError(f"episode {header.id}: {taken} exists, expected an id that no episode of the store has")
    return sink


def commit_file(layout: StoreLayout, place: Place, sidecar: Sidecar, sink: FileSink) -> CommittedEpisode:
    """Check the finished `.part` file and commit it.

    The file's bytes are written to disk before the file gets its final name, and the sidecar gets its name last. A
    single wait then makes files and names durable; three waits in a row would cost three commits of the file system's
    journal. A power cut during that wait leaves no trace of the episode; or an incomplete sidecar, which `recover`
    rewrites from the file; or, on a file system that reorders even so, a file that does not match its sidecar's hash,
    which `recover` puts into quarantine.
    """
    part, file = layout.file_part(place), layout.file(place)
    sidecar_part, sidecar_file = layout.sidecar_part(place), layout.sidecar(place)
    with contextlib.ExitStack() as closing:
        try:
            descriptor = os.open(sidecar_part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            closing.callback(os.close, descriptor)
            folder = os.open(part.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            closing.callback(os.close, folder)
            begin_writing_out(sink.descriptor)
            write_all(descriptor, encode_sidecar(sidecar))
            _check_written(part, sidecar, sink)
            write_out(sink.descriptor)
            part.rename(file)
            sidecar_part.rename(sidecar_file)
            sync_together(sink.descriptor, descriptor, folder)
        except (OSError, EpisodeDamaged):
            _take_back(part, file, sidecar_part, sidecar_file)
            raise
    return sidecar.to_committed()


def describe(
    header: EpisodeHeader,
    *,
    steps: int,
    label: Label,
    ended_ns: int,
    health: tuple[str, ...],
    file_sha256: str,
    file_bytes: int,
    committed_ns: int,
) -> Sidecar:
    """The sidecar that commits an episode; except for its last three fields, the episode's own file says the same."""
    return Sidecar(
        id=header.id,
        robot=header.robot,
        behaviour_policy=header.behaviour_policy,
        object_set=header.object_set,
        permit_id=header.permit_id,
        began_ns=header.began_ns,
        duration_ns=max(0, ended_ns - header.began_ns),
        steps=steps,
        label=label,
        file_sha256=file_sha256,
        file_bytes=file_bytes,
        health=health,
        committed_ns=committed_ns,
        task=header.task,
        seed=header.seed,
    )


def describe_whole(whole: WholeEpisode, *, file_sha256: str, file_bytes: int, committed_ns: int) -> Sidecar:
    return describe(
        whole.header,
        steps=len(whole.steps),
        label=whole.label,
        ended_ns=whole.ended_ns,
        health=whole.health,
        file_sha256=file_sha256,
        file_bytes=file_bytes,
        committed_ns=committed_ns,
    )


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """Use version 1 for a sidecar that an older opc_ros can represent, version 2 for one with more fields."""
    label = {name: getattr(sidecar.label, name) for name in _LABEL_FIELDS}
    body = {name: getattr(sidecar, name) for name in _SIDECAR_FIELDS} | {"label": label}
    news = {"task": body.pop("task"), "seed": body.pop("seed")}
    if news == {"task": GRASPING.name, "seed": None}:
        return encode_document("episode", body)
    return encode_document("episode", body | news, version=2)


def _check_written(part: Path, sidecar: Sidecar, sink: FileSink) -> None:
    """Read the file back, as any later reader will, while the disk is busy with it."""
    data = part.read_bytes()
    if not sink.has_written(data):
        found = hashlib.sha256(data).hexdigest()
        raise EpisodeDamaged(f"episode {sidecar.id}: {part} reads back as {found}, written was {sidecar.file_sha256}")
    whole = read_whole(data, where=f"episode {sidecar.id}", are_crcs_checked=False)
    again = describe_whole(
        whole, file_sha256=sidecar.file_sha256, file_bytes=len(data), committed_ns=sidecar.committed_ns
    )
    if again != sidecar:
        raise EpisodeDamaged(f"episode {sidecar.id}: reads back as {again}, written was {sidecar}")


def _take_back(part: Path, file: Path, sidecar_part: Path, sidecar_file: Path) -> None:
    """Undo a commit that the disk refused: the episode must not look committed."""
    sidecar_file.unlink(missing_ok=True)
    sidecar_part.unlink(missing_ok=True)
    if file.exists():
        file.rename(part)


def _find_taken(layout: StoreLayout, place: Place, find_committed: Callable[[str], Place | None]) -> Path | None:
    """Find another use of the id; called after the claim, so that of two writers at least one sees the other."""
    if labels.has_labels(layout, place):
        return layout.label_folder(place.home)  # labels of an earlier episode with this id must not apply to it
    own, episodes = os.fspath(layout.file_part(place)), os.fspath(layout.episodes)
    for robot in layout.robots():
        for folder in (f"{episodes}/{robot}", f"{episodes}/{robot}/{place.home.day}"):
            for suffix in (MCAP, JSON, MCAP + PART):
                path = f"{folder}/{place.episode_id}{suffix}"
                if os.path.exists(path) and path != own:
                    return Path(path)
    known = find_committed(place.episode_id)
    return layout.sidecar(known) if known is not None else None
