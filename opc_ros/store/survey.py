"""Which files a store really has, committed or not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opc_ros.durable import PART, age_s, is_same_file, try_lock
from opc_ros.store.layout import JSON, MCAP, Place, StoreLayout, is_day, names_in

_NETWORK_KINDS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse", "glusterfs", "lustre", "ocfs2", "gfs", "virtiofs")


@dataclass(frozen=True, slots=True)
class Remains:
    """The files of one episode id in one folder."""

    place: Place
    suffixes: frozenset[str]

    @property
    def robot(self) -> str:
        return self.place.robot

    @property
    def episode_id(self) -> str:
        return self.place.episode_id

    @property
    def is_committed(self) -> bool:
        return self.suffixes == {MCAP, JSON}


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything below episodes/, sorted by robot and id, and files that do not belong there."""

    remains: tuple[Remains, ...]
    strays: tuple[Path, ...]


def survey(layout: StoreLayout) -> Survey:
    remains: list[Remains] = []
    strays = [layout.episodes / name for name in layout.robots() if not (layout.episodes / name).is_dir()]
    for home in layout.homes():
        folder = layout.home_folder(home)
        found: dict[str, set[str]] = {}
        for name in names_in(folder):
            stem, suffix = _split(name)
            if suffix:
                found.setdefault(stem, set()).add(suffix)
            elif home.day or not (is_day(name) and (folder / name).is_dir()):
                strays.append(folder / name)
        remains += [Remains(Place(home, stem), frozenset(found[stem])) for stem in sorted(found)]
    return Survey(tuple(remains), tuple(strays))


def stale_parts(layout: StoreLayout, *, settle_s: float) -> Iterator[Path]:
    """Half-written documents that have not changed for a while; writing one takes milliseconds."""
    for path in sorted(layout.root.rglob(f".*{PART}")):
        try:
            is_stale = age_s(path) >= settle_s
        except FileNotFoundError:
            continue
        if is_stale:
            yield path


@contextmanager
def held(path: Path, *, settle_s: float) -> Iterator[bool]:
    """Yields whether this process holds the file; False if a writer is using it, or it is gone."""
    try:
        descriptor = _open_for_lock(path)
    except FileNotFoundError:
        yield False
        return
    try:
        locked = try_lock(descriptor)
        if locked is None or (locked and is_shared(descriptor)):
            # File locks may not work between machines here, so also check when the file last grew.
            locked = age_s(descriptor) >= settle_s
        yield locked and is_same_file(path, descriptor)
    finally:
        os.close(descriptor)


def is_shared(file: Path | int) -> bool:
    """Whether other machines may write to this file system as well, as far as this machine knows."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    device = os.stat(file).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    kinds = [line.partition(" - ")[2].split(" ")[0] for line in mounts if line.split(" ")[2] == name]
    return any(kind.startswith(_NETWORK_KINDS) for kind in kinds)


def _open_for_lock(path: Path) -> int:
    """Open a file so that it can be locked: some network file systems only lock files open for writing."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _split(name: str) -> tuple[str, str]:
    for suffix in (MCAP + PART, JSON + PART, MCAP, JSON):
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix), suffix
    return name, ""
