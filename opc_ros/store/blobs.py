"""Named bytes in a folder or a bucket, which copying between stores works on.

Keys are paths in a store's folder, such as `episodes/arm1/2026-11-18/x.mcap`, wherever the store is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from opc_ros.durable import create_file, make_folder, replace_file, store_error, sync_folder
from opc_ros.errors import BlobNotFound, StoreError
from opc_ros.store.piece_reading import PieceReader

# No part is empty or begins with a dot, so that a stranger's key cannot leave the folder or hide in it.
_KEY = re.compile(r"(?!\.)[^/\0\\]{1,255}(/(?!\.)[^/\0\\]{1,255})*")


class BlobFacts(NamedTuple):
    """What a listing says about a blob."""

    key: str
    size: int
    mark: str  # changes when the bytes do


class Blobs(Protocol):
    """A flat space of named bytes. A put is atomic, and visible to whoever looks next."""

    @property
    def name(self) -> str:
        """For people; contains no credentials."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Put only if the key is new; of several concurrent calls one returns True, and nothing is overwritten."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Put or overwrite, for the few things that change, such as tags."""
        ...

    def get(self, key: str) -> bytes:
        """All bytes; raises BlobNotFound if there are none."""
        ...

    def range(self, key: str, start: int, length: int) -> bytes:
        """Exactly these bytes; raises StoreError if the blob ends earlier."""
        ...

    def list(self, prefix: str = "") -> Iterator[BlobFacts]:
        """All keys below a folder, grouped by folder; the prefix ends with a slash or is empty.

        Whether `a.txt` or `a/b` comes first depends on the server.
        """
        ...

    def head(self, key: str) -> BlobFacts | None: ...

    def delete(self, key: str) -> None:
        """Delete a blob; no error if there is none."""
        ...

    def announce(self, folder: str) -> None:
        """Tell pollers that something in a folder is new, after it was put."""
        ...


class FolderBlobs:
    """The files of a folder; the embedded default."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pieces = PieceReader()

    @property
    def name(self) -> str:
        return str(self._root)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        try:
            make_folder(path.parent)
            return create_file(path, data)
        except OSError as error:
            raise store_error(f"{path}: cannot be written", error) from error

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        try:
            make_folder(path.parent)
            replace_file(path, data)
        except OSError as error:
            raise store_error(f"{path}: cannot be written", error) from error

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise BlobNotFound(f"{path}: no such file") from None
        except OSError as error:
            raise store_error(str(path), error) from error

    def range(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)
        try:
            data = self._pieces.read(path, start, length)
        except FileNotFoundError:
            raise BlobNotFound(f"{path}: no such file") from None
        except OSError as error:
            raise store_error(str(path), error) from error
        if len(data) != length:
            raise StoreError(f"{path}: {len(data)} bytes at {start}, expected {length}")
        return data

    def list(self, prefix: str = "") -> Iterator[BlobFacts]:
        yield from self._walk(self._root / prefix, prefix)

    def head(self, key: str) -> BlobFacts | None:
        try:
            found = self._path(key).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise store_error(str(self._path(key)), error) from error
        return BlobFacts(key, found.st_size, f"{found.st_mtime_ns}-{found.st_ino}")

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_error(f"{path}: cannot be removed", error) from error

    def announce(self, folder: str) -> None:
        """Nothing to do: the folder's own modification time changes."""

    def _walk(self, folder: Path, prefix: str) -> Iterator[BlobFacts]:
        try:
            with os.scandir(folder) as entries:
                found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=_sorted_as_key)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise store_error(str(folder), error) from error
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(folder / entry.name, f"{prefix}{entry.name}/")
                continue
            try:
                facts = entry.stat()
            except FileNotFoundError:  # deleted meanwhile
                continue
            yield BlobFacts(f"{prefix}{entry.name}", facts.st_size, f"{facts.st_mtime_ns}-{facts.st_ino}")

    def _path(self, key: str) -> Path:
        check_key(key)
        return self._root / key


def check_key(key: str) -> str:
    if _KEY.fullmatch(key) is None:
        raise StoreError(f"key {key!r:.200} is no name below a store")
    return key


def _sorted_as_key(entry: os.DirEntry[str]) -> str:
    """Sort key for a name; folders sort with a trailing slash, like their keys."""
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
