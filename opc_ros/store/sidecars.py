"""Reading the documents that commit episodes: one strictly, or very many at once."""

from __future__ import annotations

import hashlib
import json
import os

from opc_ros.config import parse_config
from opc_ros.documents import canonical_json
from opc_ros.episode import Label, LabelSource
from opc_ros.errors import EpisodeDamaged, EpisodeError, StoreError
from opc_ros.store.layout import JSON, MCAP, Place, StoreLayout
from opc_ros.store.records import Sidecar
from opc_ros.store.sealed import read_document
from opc_ros.store.shards import Shards
from opc_ros.store.sidecar_text import take_apart

_KINDS: dict[str, type] = {
    "id": str,
    "robot": str,
    "behaviour_policy": str,
    "object_set": str,
    "permit_id": str,
    "began_ns": int,
    "duration_ns": int,
    "steps": int,
    "label": dict,
    "file_sha256": str,
    "file_bytes": int,
    "health": list,
    "committed_ns": int,
}
_NEWER_KINDS = {**_KINDS, "task": str, "seed": object}
_FORMAT = "opc_ros.episode"
_UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, EpisodeError)
_SOURCES = {source.value: source for source in LabelSource}


def read_sidecar(layout: StoreLayout, place: Place) -> Sidecar:
    """The document that commits an episode; EpisodeDamaged says what is wrong with it."""
    path = layout.sidecar(place)
    try:
        sidecar = _read_quickly(os.fspath(path))
    except _UNREADABLE:
        sidecar = None
    if sidecar is None:
        sidecar = _read_strictly(layout, place)
    if (sidecar.robot, sidecar.id) != (place.robot, place.episode_id):
        raise EpisodeDamaged(f"episode {place.episode_id}: {path} is of episode {sidecar.id} of robot {sidecar.robot}")
    return sidecar


def read_committed(layout: StoreLayout, place: Place, shards: Shards) -> Sidecar:
    """Also check that the file exists with its full size: cheap, and it keeps truncated episodes out of snapshots."""
    sidecar = read_sidecar(layout, place)
    if not layout.has_files:
        return sidecar
    path = layout.file(place)
    try:
        size = path.stat().st_size
    except OSError as error:
        packed = shards.of(place.home)
        found = packed.find(place.episode_id, sidecar.file_sha256)
        if found is not None and found.length == sidecar.file_bytes:
            return sidecar
        told = "; ".join([f"its file {path}: {error.strerror or error}", *packed.problems.values()])
        raise EpisodeDamaged(f"episode {place.episode_id}: {told}") from error
    if size != sidecar.file_bytes:
        raise EpisodeDamaged(
            f"episode {place.episode_id}: {path} has {size} bytes, committed were {sidecar.file_bytes}"
        )
    return sidecar


def read_listed(layout: StoreLayout, place: Place, folder: str, shards: Shards) -> Sidecar:
    """Like `read_committed`, for one of very many in a folder: builds paths as strings and checks no parts."""
    try:
        sidecar = _read_quickly(f"{folder}/{place.episode_id}{JSON}")
        is_own = sidecar is not None and (sidecar.robot, sidecar.id) == (place.robot, place.episode_id)
        if sidecar is not None and is_own:
            is_alone = not layout.has_files
            if is_alone or os.stat(f"{folder}/{place.episode_id}{MCAP}").st_size == sidecar.file_bytes:
                return sidecar
    except _UNREADABLE:
        pass
    return read_committed(layout, place, shards)


def _read_strictly(layout: StoreLayout, place: Place) -> Sidecar:
    path = layout.sidecar(place)
    try:
        return parse_config(read_document(path, "episode"), Sidecar, where=str(path), error=StoreError)
    except StoreError as error:
        raise EpisodeDamaged(f"episode {place.episode_id}: {error}; `opc store recover` repairs it") from error


def _read_quickly(path: str) -> Sidecar | None:
    """The result of the strict reader, several times faster; None if only that one can decide.

    The seal covers every value, and canonical JSON has only finite numbers, so whatever matches the seal was written
    so.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)
    found = take_apart(data)
    if found is not None:
        return found
    document = json.loads(data.decode())
    seal = document.pop("seal")
    if hashlib.sha256(canonical_json(document).encode()).hexdigest() != seal:
        return None
    version = document.pop("version")
    kinds = _KINDS if version == 1 else _NEWER_KINDS
    if document.pop("format") != _FORMAT or version not in (1, 2) or document.keys() != kinds.keys():
        return None
    for name, kind in kinds.items():
        if type(document[name]) is not kind and kind is not object:
            return None
    label, health = document["label"], document["health"]
    if label.keys() != {"is_success", "source", "labeller"} or type(label["is_success"]) not in (bool, type(None)):
        return None
    if type(label["labeller"]) is not str or any(type(line) is not str for line in health):
        return None
    if type(document.get("seed")) not in (int, type(None)):
        return None
    document["label"] = Label(label["is_success"], _SOURCES[label["source"]], label["labeller"])
    document["health"] = tuple(health)
    return Sidecar(**document)
