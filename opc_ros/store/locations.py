"""Where stores lie."""

from __future__ import annotations

from pathlib import Path

from opc_ros.errors import StoreError
from opc_ros.store.blobs import Blobs, FolderBlobs


def find_blobs(location: Path | str) -> Blobs:
    """The bytes of a store."""
    if str(location).startswith("s3:/"):
        raise StoreError(f"{location}: a store lies in a folder, buckets are not supported")
    return FolderBlobs(Path(location).expanduser().absolute())
