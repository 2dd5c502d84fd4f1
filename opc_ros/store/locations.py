"""Where stores can be: in a folder, or below a name in a bucket (`s3://bucket/lab`)."""

from __future__ import annotations

from pathlib import Path

from opc_ros.store.blobs import Blobs, FolderBlobs
from opc_ros.store.object_blobs import is_bucket, open_bucket
from opc_ros.store.store_sync import MARKER


def absolute_location(location: Path | str) -> str:
    """The same location in a form that is valid from any working directory."""
    return open_bucket(location).name if is_bucket(location) else str(Path(location).expanduser().resolve())


def find_blobs(location: Path | str, *, is_target: bool = False) -> Blobs:
    """The blobs of a store, or of a location that will become one."""
    if not is_bucket(location):
        return FolderBlobs(Path(location).expanduser().absolute())
    bucket = open_bucket(location)
    if is_target and bucket.head(MARKER) is None:
        bucket.refuse_without_conditions()
    return bucket
