"""Fetch a candidate by its digest, resuming an interrupted attempt, and check it before it gets its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from opc_ros.durable import make_folder, store_error, sync_folder, write_synced
from opc_ros.errors import CandidateError, EpisodeStopped, TransferError
from opc_ros.policies.candidate import MAX_ARTIFACT_BYTES, Candidate, read_candidate
from opc_ros.policies.manifest import MANIFEST_NAME
from opc_ros.transfer.channel import Asking, ask_json

LARGEST_MANIFEST = 1 << 20
PART = ".part"


def fetch_candidate(
    channel: Asking, candidate_id: str, folder: Path, *, why_to_stop: Callable[[], str | None] = lambda: None
) -> Candidate:
    """The candidate with this id, from `folder` if it was fetched before, otherwise from the lab's depot."""
    kept = folder / candidate_id
    if kept.is_dir():
        try:
            candidate = read_candidate(kept)
            if candidate.id == candidate_id:
                return candidate
        except CandidateError:
            pass  # damaged since then: fetch it again
    try:
        return _fetch(channel, candidate_id, folder, why_to_stop)
    except OSError as error:
        raise store_error(f"candidate {candidate_id[:12]}: cannot be kept in {folder}", error) from error


def _fetch(channel: Asking, candidate_id: str, folder: Path, why_to_stop: Callable[[], str | None]) -> Candidate:
    told = ask_json(channel, "GET", f"/candidates/{candidate_id}")
    sizes, name = told.get("sizes"), told.get("artifact_name")
    if not isinstance(sizes, dict) or not isinstance(name, str) or Path(name).name != name or name == MANIFEST_NAME:
        raise TransferError(f"candidate {candidate_id[:12]}: the depot's answer cannot be read")
    part = folder / f"{candidate_id}{PART}"
    make_folder(part)
    for what, file, most in (("manifest", MANIFEST_NAME, LARGEST_MANIFEST), ("artifact", name, MAX_ARTIFACT_BYTES)):
        size = sizes.get(what)
        if type(size) is not int or not 0 < size <= most:
            raise TransferError(f"candidate {candidate_id[:12]}: {what} of {size} bytes, expected up to {most}")
        _fetch_part(channel, f"/candidates/{candidate_id}/{what}", part / file, size, why_to_stop)
    found = read_candidate(part)
    if found.id != candidate_id:
        _throw_away(part)
        raise TransferError(f"candidate {candidate_id[:12]}: what arrived has id {found.id[:12]}, so it is discarded")
    kept = folder / candidate_id
    _throw_away(kept)
    part.rename(kept)
    sync_folder(folder)
    return read_candidate(kept)


def _fetch_part(channel: Asking, path: str, file: Path, size: int, why_to_stop: Callable[[], str | None]) -> None:
    data = bytearray(file.read_bytes() if file.exists() else b"")
    if len(data) > size:
        data.clear()
    while len(data) < size:
        if reason := why_to_stop():
            raise EpisodeStopped(reason)
        piece = channel.ask("GET", f"{path}?from={len(data)}")
        if not 0 < len(piece) <= size - len(data):
            raise TransferError(f"{path}: {len(piece)} bytes after {len(data)}, expected up to {size - len(data)}")
        with file.open("ab" if data else "wb") as kept:
            kept.write(piece)
        data += piece
    write_synced(file, bytes(data))


def _throw_away(folder: Path) -> None:
    if folder.is_dir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
