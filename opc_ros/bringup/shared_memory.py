"""Remove DDS shared memory that killed nodes left behind: a half-made segment hangs every node that meets it."""

from __future__ import annotations

import contextlib
import fcntl
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path("/dev/shm")
PROCESSES = Path("/proc")
# Segments and their lock files. Semaphores are left alone: DDS itself replaces one that stays locked.
NAME = re.compile(r"(fastrtps|fast_datasharing)_\w+")
LOCKS = ("_el", "_sl")  # exclusive and shared; held by living processes
MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ (\d+) +(/\S+)", re.MULTILINE)  # inode and path in /proc/PID/maps


def sweep_shared_memory(folder: Path = FOLDER) -> list[str]:
    """Remove segments that no process has open or mapped, and return their names."""
    left = _list_files(folder)
    # List first, so that new segments are not touched, and check twice, so that segments opened meanwhile stay.
    for _ in range(2):
        if left:
            used = set(_used_inodes(folder))
            left = {path: inode for path, inode in left.items() if inode not in used}
    left = {path: inode for path, inode in left.items() if not _is_locked(path)}
    swept = []
    for path, inode in left.items():
        with contextlib.suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()
                swept.append(path.name)
    return sorted(swept)


def _list_files(folder: Path) -> dict[Path, int]:
    found = {}
    if folder.is_dir() and PROCESSES.joinpath("self").exists():
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if NAME.fullmatch(path.name):
                    found[path] = path.stat().st_ino
    return found


def _used_inodes(folder: Path) -> Iterator[int]:
    """Compare by inode, because a mapping shows the name under which its file was created."""
    for process in PROCESSES.iterdir():
        if not process.name.isdecimal():
            continue
        # Other users' processes cannot be read, but their files cannot be removed either.
        with contextlib.suppress(OSError):
            for inode, path in MAPPED.findall((process / "maps").read_text(errors="replace")):
                if path.startswith(str(folder)):
                    yield int(inode)
        with contextlib.suppress(OSError):
            yield from _open_inodes(process / "fd", folder)


def _is_locked(path: Path) -> bool:
    """Whether a node holds this segment's lock; a node in another container is not among our processes."""
    segment = path.with_name(path.name.removesuffix("_el").removesuffix("_sl"))
    for ending in LOCKS:
        try:
            with segment.with_name(segment.name + ending).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            continue
    return False


def _open_inodes(descriptors: Path, folder: Path) -> Iterator[int]:
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(OSError):
            if str(descriptor.readlink()).startswith(str(folder)):
                yield descriptor.stat().st_ino
