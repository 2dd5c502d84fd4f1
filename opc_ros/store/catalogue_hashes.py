"""Which folder an episode id is in, for all ids at once: sorted hashes, passed on from one process to the next.

Each hash is kept with the folder table that it came from. Only tables that have changed are read again, so that a
process's first lookup costs in proportion to what is new, not to what there is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.documents import canonical_json
from opc_ros.durable import swap_file
from opc_ros.errors import StoreError
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.layout import Home
from opc_ros.store.segment import Segment, hash_id

FORMAT = "opc_ros.catalogue_hashes/1"


@dataclass(frozen=True, slots=True)
class IdHashes:
    """Ids by their hash."""

    hashes: np.ndarray  # (N,) uint64, ascending
    owners: np.ndarray  # (N,) uint32, indices into `homes`
    homes: list[Home]

    def homes_of(self, episode_id: str) -> list[Home]:
        """The folders that may contain an id; nearly always one or none."""
        wanted = np.uint64(hash_id(episode_id))
        first, last = (int(np.searchsorted(self.hashes, wanted, side=side)) for side in ("left", "right"))
        return [self.homes[owner] for owner in self.owners[first:last]]


def build_hashes(
    path: Path,
    folders: Sequence[FolderFacts],
    read: Callable[[FolderFacts], Segment],
    is_current: Callable[[], bool],
) -> IdHashes:
    """Build the hashes of these folders, reusing what an earlier process saved at `path`.

    The result is saved there unless folders were read again meanwhile, because it might then mix different tables.
    """
    tables = [facts.segment for facts in folders]
    hashes, owners, missing = _take_over(path, tables)
    if missing:
        columns = [_hashes_of(read(folders[place])) for place in missing]
        hashes = np.concatenate([hashes, *columns])
        added = np.repeat(np.array(missing, dtype=np.uint32), [len(column) for column in columns])
        owners = np.concatenate([owners, added])
        order = np.argsort(hashes, kind="stable")
        hashes, owners = hashes[order], owners[order]
        if is_current():
            _leave(path, tables, hashes, owners)
    return IdHashes(hashes, owners, [facts.home for facts in folders])


def _take_over(path: Path, tables: Sequence[str]) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Hashes already known for these tables, and the indices of the other tables; nothing if the file is damaged."""
    try:
        known, hashes, owners = _read(path)
    except (OSError, StoreError, ValueError, LookupError, TypeError, RecursionError):
        known, hashes, owners = [], np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint32)
    if known == list(tables):
        return hashes, owners, []
    now = {table: place for place, table in enumerate(tables)}  # a table names its folder, so no two are equal
    places = np.array([now.get(table, -1) for table in known], dtype=np.int64)
    if len(known):
        moved = places[owners]
        hashes, owners = hashes[moved >= 0], moved[moved >= 0].astype(np.uint32)
    taken = set(places.tolist())
    return hashes, owners, [place for place in range(len(tables)) if place not in taken]


def _hashes_of(table: Segment) -> np.ndarray:
    return np.concatenate([table.rows["id_hash"], np.array(list(map(hash_id, table.damaged)), dtype=np.uint64)])


def _read(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    digest, _, data = path.read_bytes().partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != digest:
        raise StoreError(f"{path}: was changed or damaged")
    line, _, columns = data.partition(b"\n")
    head = json.loads(line)  # our own bytes, verified by their digest
    if head["format"] != FORMAT:
        raise StoreError(f"{path}: of another format")
    count = head["count"]
    hashes = np.frombuffer(columns, dtype="<u8", count=count)
    return head["tables"], hashes, np.frombuffer(columns, dtype="<u4", count=count, offset=8 * count)


def _leave(path: Path, tables: Sequence[str], hashes: np.ndarray, owners: np.ndarray) -> None:
    """Save the hashes; if that fails, the next process builds its own."""
    head = canonical_json({"format": FORMAT, "tables": list(tables), "count": len(hashes)}).encode()
    data = head + b"\n" + hashes.astype("<u8").tobytes() + owners.astype("<u4").tobytes()
    try:
        swap_file(path, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    except OSError:
        return
