"""JSON files that name their format and version and carry a seal over their content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from opc_ros.errors import StoreError

VERSION = 1
SIZE_LIMIT = 16 * 1024 * 1024  # a document is a few kilobytes; what is far larger is none

_OWN_KEYS = ("format", "version", "seal")


def encode_document(kind: str, body: dict[str, Any]) -> bytes:
    """Readable by people, and sealed: a changed byte is noticed."""
    document = {"format": f"opc_ros.{kind}", "version": VERSION, **body}
    document["seal"] = _seal(document)
    return json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8") + b"\n"


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """The body of a sealed document; StoreError says in one line what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    return decode_document(data, kind, where=str(path))


def decode_document(data: bytes, kind: str, *, where: str) -> dict[str, Any]:
    if len(data) > SIZE_LIMIT:
        raise StoreError(f"{where}: larger than {SIZE_LIMIT} bytes, expected a small JSON document")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{where}: not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != f"opc_ros.{kind}":
        raise StoreError(f"{where}: not a document of format 'opc_ros.{kind}'")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise StoreError(f"{where}: format version {version}, this opc_ros reads up to {VERSION}: install a newer one")
    if version != VERSION or type(version) is not int:
        raise StoreError(f"{where}: format version {version!r}, expected {VERSION}")
    seal = document.pop("seal", None)
    try:
        is_sealed = seal == _seal(document)
    except (ValueError, RecursionError):
        is_sealed = False
    if not is_sealed:
        raise StoreError(f"{where}: its content does not match its seal, so it was changed or damaged")
    return {key: value for key, value in document.items() if key not in _OWN_KEYS}


def canonical_json(value: object) -> bytes:
    """One spelling for each value, so that equal content has equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def _seal(document: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document)).hexdigest()
