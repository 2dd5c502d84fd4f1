"""A store's bytes in S3-compatible object storage, through obstore; credentials come only from the environment."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from opc_ros.documents import shorten
from opc_ros.errors import BlobNotFound, SetupError, StoreError
from opc_ros.store.blobs import BlobFacts, check_key

MARKS = "marks/"

# A Path merges the two slashes into one, and many settings hold a store's location as a path.
_LOCATION = re.compile(r"s3:/{1,2}(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>[^\0]*?))?/*")
_CONNECT_S, _REQUEST_S, _RETRY_S = 10, 60, 120


def is_bucket(location: Path | str) -> bool:
    return str(location).startswith("s3:/")


def open_bucket(location: Path | str) -> ObjectBlobs:
    """The blobs below `s3://bucket/name`; does not contact the server yet."""
    match = _LOCATION.fullmatch(str(location))
    if match is None:
        raise StoreError(
            f"{location}: expected s3://bucket/name, a bucket of lower-case letters, digits, dots and dashes"
        )
    prefix = "/".join(part for part in (match["prefix"] or "").split("/") if part)
    if prefix:
        check_key(prefix)
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise SetupError(f"{location}: obstore is missing; install opc-ros[s3]") from error
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "") or os.environ.get("AWS_ENDPOINT", "")
    name = f"s3://{match['bucket']}/{prefix}".rstrip("/")
    try:
        store = S3Store(
            match["bucket"],
            prefix=prefix or None,
            client_options={
                "connect_timeout": timedelta(seconds=_CONNECT_S),
                "timeout": timedelta(seconds=_REQUEST_S),
                "allow_http": endpoint.startswith("http://"),
            },
            retry_config={"max_retries": 6, "retry_timeout": timedelta(seconds=_RETRY_S)},
        )
    except Exception as error:  # obstore raises its own exceptions, and ValueError for settings
        raise StoreError(f"{name}: {_first_line(error)}") from error
    return ObjectBlobs(store, name)


class ObjectBlobs:
    """Objects below one name of a bucket. A put is atomic, as S3 guarantees."""

    def __init__(self, store: Any, name: str) -> None:
        self._store = store
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Put with `If-None-Match: *`. After a lost answer, False may refer to our own bytes: compare them."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            obstore.put(self._store, check_key(key), data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except Exception as error:
            raise self._problem(key, error) from error
        return True

    def put(self, key: str, data: bytes) -> None:
        import obstore

        try:
            obstore.put(self._store, check_key(key), data, use_multipart=False)
        except Exception as error:
            raise self._problem(key, error) from error

    def get(self, key: str) -> bytes:
        import obstore

        try:
            return bytes(obstore.get(self._store, check_key(key)).bytes())
        except Exception as error:
            raise self._problem(key, error) from error

    def range(self, key: str, start: int, length: int) -> bytes:
        import obstore

        try:
            data = bytes(obstore.get_range(self._store, check_key(key), start=start, length=length))
        except Exception as error:
            raise self._problem(key, error) from error
        if len(data) != length:
            raise StoreError(f"{self._name}/{key}: {len(data)} bytes at {start}, expected {length}")
        return data

    def list(self, prefix: str = "") -> Iterator[BlobFacts]:
        import obstore

        try:
            for chunk in obstore.list(self._store, prefix.rstrip("/") or None):
                for found in chunk:
                    mark = found["e_tag"] or found["last_modified"].isoformat()
                    yield BlobFacts(check_key(found["path"]), found["size"], mark)
        except StoreError:
            raise
        except Exception as error:
            raise self._problem(prefix, error) from error

    def head(self, key: str) -> BlobFacts | None:
        import obstore

        try:
            found = obstore.head(self._store, check_key(key))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._problem(key, error) from error
        return BlobFacts(key, found["size"], found["e_tag"] or found["last_modified"].isoformat())

    def delete(self, key: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, check_key(key))
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._problem(key, error) from error

    def announce(self, folder: str) -> None:
        """Folders in a bucket have no modification time, so a changing object represents it."""
        self.put(f"{MARKS}{folder}", uuid.uuid4().hex.encode())

    def refuse_without_conditions(self) -> None:
        """Refuse a server that ignores conditional puts: two writers could silently overwrite each other."""
        key = f"probe/{uuid.uuid4().hex}"
        if not self.put_if_absent(key, b"first"):
            raise StoreError(f"{self._name}: refuses a conditional put of a new object; it cannot hold a store")
        is_overwritten = self.put_if_absent(key, b"second")
        self.delete(key)
        if is_overwritten:
            raise StoreError(f"{self._name}: this server ignores If-None-Match and overwrites; it cannot hold a store")

    def _problem(self, key: str, error: Exception) -> StoreError:
        where = f"{self._name}/{key}"
        if isinstance(error, StoreError):
            return error
        if isinstance(error, FileNotFoundError):
            return BlobNotFound(f"{where}: no such object")
        return StoreError(f"{where}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """Only the first line of an error: the library appends its whole retry history."""
    lines = str(error).strip().splitlines()
    return shorten(lines[0], 300) if lines else type(error).__name__
