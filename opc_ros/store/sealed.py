"""JSON files that name their format and version and carry a seal over their content."""

from __future__ import annotations

import hashlib
import json
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.errors import StoreError

VERSION = 1
NEWEST_VERSION = 2  # has keys that version 1 does not have
SIZE_LIMIT = 16 * 1024 * 1024  # documents take a few kilobytes; a far larger file is not one

_OWN_KEYS = ("format", "version", "seal")


def encode_document(kind: str, body: dict[str, Any], *, version: int = VERSION) -> bytes:
    """Encode a document that people can read, with a seal that reveals any changed byte."""
    document = {"format": f"opc_ros.{kind}", "version": version, **body}
    document["seal"] = _seal(document)
    return indent_json(document).encode("utf-8") + b"\n"


def indent_json(value: Any, margin: str = "\n") -> str:
    """Same output as `json.dumps` with an indent of 2 and non-ASCII kept, several times faster on small documents."""
    deeper = f"{margin}  "
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict) and value:
        lines = [f"{encode_basestring(key)}: {indent_json(item, deeper)}" for key, item in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(lines)}{margin}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{deeper}{f',{deeper}'.join(indent_json(item, deeper) for item in value)}{margin}]"
    return str(value) if type(value) is int else json.dumps(value)


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """The body of a sealed document; StoreError says in one line what is wrong with it."""
    return decode_document(read_bytes(path, limit=SIZE_LIMIT, error=StoreError), kind, where=str(path))


def decode_document(data: bytes, kind: str, *, where: str) -> dict[str, Any]:
    document = parse_json(data, where=where, error=StoreError)
    if not isinstance(document, dict) or document.get("format") != f"opc_ros.{kind}":
        raise StoreError(f"{where}: not a document of format 'opc_ros.{kind}'")
    version = document.get("version")
    if type(version) is not int or version < VERSION:
        raise StoreError(f"{where}: format version {version!r}, expected {VERSION} to {NEWEST_VERSION}")
    if version > NEWEST_VERSION:
        raise StoreError(
            f"{where}: format version {version}, this opc_ros reads up to {NEWEST_VERSION}: install a newer one"
        )
    if document.pop("seal", None) != _seal(document):
        raise StoreError(f"{where}: its content does not match its seal, so it was changed or damaged")
    return {key: value for key, value in document.items() if key not in _OWN_KEYS}


def version_of(data: bytes, where: str) -> int:
    """The version that a document claims; 0 if it claims none."""
    document = parse_json(data, where=where, error=StoreError)
    version = document.get("version") if isinstance(document, dict) else None
    return version if type(version) is int else 0


def _seal(document: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()
