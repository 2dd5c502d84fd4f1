"""An episode's bytes exactly as committed, whether they are in a shard or in a file of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from opc_ros.durable import make_folder, store_error, swap_file
from opc_ros.errors import BlobNotFound, EpisodeDamaged, StoreError
from opc_ros.store.blobs import Blobs
from opc_ros.store.layout import MCAP, Place, StoreLayout
from opc_ros.store.shards import Shards, Slice


class EpisodeBytes:
    """The one way to read an episode's bytes, from a folder or a bucket; several threads may use it."""

    def __init__(
        self, layout: StoreLayout, blobs: Blobs, shards: Shards, look_again: Callable[[], object] = lambda: None
    ) -> None:
        """`look_again` fetches news of shards, for stores where looking into the folder does not find them."""
        self._layout = layout
        self.blobs = blobs
        self.shards = shards
        self._look_again = look_again

    def read(self, place: Place, file_sha256: str) -> bytes:
        """Read from a shard if one is known to have them, as shards are in reading order; otherwise from the file.

        Bytes without the committed digest are rejected; EpisodeDamaged says what was found where.
        """
        told: list[str] = []
        packed = self.shards.find(place, file_sha256, is_fresh=False)
        data = self._read_slice(packed, file_sha256, told) if packed is not None else None
        if data is None:
            data = self._read_file(place, file_sha256, told)
        if data is None:  # it may have been packed after this process last looked
            self._look_again()
            newer = self.shards.find(place, file_sha256)
            data = self._read_slice(newer, file_sha256, told) if newer not in (None, packed) else None
        if data is None:
            told += self.shards.of(place.home).problems.values()
            raise EpisodeDamaged(f"episode {place.episode_id}: {'; '.join(told)}")
        return data

    def read_packed(self, packed: Slice, file_sha256: str) -> bytes:
        """Read from a shard only; raises EpisodeDamaged if it contains something else."""
        told: list[str] = []
        data = self._read_slice(packed, file_sha256, told)
        if data is None:
            raise EpisodeDamaged(told[0])
        return data

    def copy_out(self, place: Place, file_sha256: str, folder: Path) -> Path:
        """Copy the episode to a file, for programs that read files; it can be copied again at any time."""
        data, path = self.read(place, file_sha256), folder / f"{place.episode_id}{MCAP}"
        try:
            make_folder(folder)
            swap_file(path, data)
        except OSError as error:
            raise store_error(f"episode {place.episode_id}: cannot copy it to {path}", error) from error
        return path

    def _read_slice(self, packed: Slice | None, file_sha256: str, told: list[str]) -> bytes | None:
        if packed is None:
            return None
        where = f"shard {self.blobs.name}/{packed.key}"
        try:
            data = self.blobs.range(packed.key, packed.offset, packed.length)
        except BlobNotFound:
            told.append(f"{where} is gone")
            return None
        except StoreError as error:
            if not self._layout.has_files:
                raise  # an error of the network, not damaged bytes
            told.append(f"{where} cannot be read: {error}")
            return None
        if (found := hashlib.sha256(data).hexdigest()) != file_sha256:
            told.append(f"{where} has sha256 {found} at {packed.offset}, committed was {file_sha256}")
            return None
        return data

    def _read_file(self, place: Place, file_sha256: str, told: list[str]) -> bytes | None:
        key = self._layout.key_of(self._layout.file(place))
        where = f"{self.blobs.name}/{key}"
        try:
            data = self.blobs.get(key)
        except BlobNotFound:
            told.append(f"its file {where} is gone")
            return None
        except StoreError as error:
            if not self._layout.has_files:
                raise
            told.append(f"its file {error}")
            return None
        if (found := hashlib.sha256(data).hexdigest()) != file_sha256:
            told.append(f"{where} has sha256 {found}, committed was {file_sha256}")
            return None
        return data
