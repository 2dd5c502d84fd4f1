"""A candidate: manifest and artifact, read once, known by the digest of exactly the bytes that will run."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from opc_ros.errors import CandidateError
from opc_ros.policies.manifest import MANIFEST_NAME, CandidateManifest, canonical_manifest, parse_manifest

MAX_MANIFEST_BYTES = 1 << 20
MAX_ARTIFACT_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Candidate:
    """What gets scored, permitted and run: the id says which bytes, and the bytes are here."""

    id: str  # sha256, lower-case hex, over canonical manifest and artifact
    manifest: CandidateManifest
    manifest_bytes: bytes = dataclasses.field(repr=False)
    artifact_bytes: bytes = dataclasses.field(repr=False)
    folder: Path

    @property
    def name(self) -> str:
        return self.manifest.name


def read_candidate(folder: Path | str) -> Candidate:
    """Read each file once; everything after this works on those bytes, whatever happens to the files."""
    folder = Path(folder)
    if not folder.is_dir():
        raise CandidateError(f"candidate {folder}: no such folder")
    where = str(folder / MANIFEST_NAME)
    manifest_bytes = _read_bytes(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
    manifest = parse_manifest(manifest_bytes, where=where)
    artifact_bytes = _read_bytes(folder / manifest.artifact, MAX_ARTIFACT_BYTES)
    return Candidate(
        id=candidate_id(canonical_manifest(manifest_bytes, where=where), artifact_bytes),
        manifest=manifest,
        manifest_bytes=manifest_bytes,
        artifact_bytes=artifact_bytes,
        folder=folder,
    )


def find_change(candidate: Candidate) -> str:
    """What has become of its files since it was read; empty where they still are this candidate."""
    try:
        if _read_bytes(candidate.folder / MANIFEST_NAME, MAX_MANIFEST_BYTES) == candidate.manifest_bytes:
            found = _read_bytes(candidate.folder / candidate.manifest.artifact, MAX_ARTIFACT_BYTES)
            if found == candidate.artifact_bytes:
                return ""
        now = read_candidate(candidate.folder).id
    except CandidateError as error:
        return str(error)
    # Another layout of the same manifest is still the same candidate.
    return "" if now == candidate.id else f"id was {candidate.id[:12]}, is {now[:12]}"


def candidate_id(canonical: bytes, artifact: bytes) -> str:
    """One sha256 over the digests of both parts, so that no byte can move from one to the other."""
    parts = (hashlib.sha256(canonical).hexdigest(), hashlib.sha256(artifact).hexdigest())
    return hashlib.sha256("\n".join(("opc candidate 1", *parts, "")).encode()).hexdigest()


def write_candidate(folder: Path | str, manifest: CandidateManifest, artifact: bytes) -> Candidate:
    """Write a candidate folder, the manifest last, and read it back."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    document = yaml.safe_dump(_to_plain(dataclasses.asdict(manifest)), sort_keys=False, allow_unicode=True)
    _write_file(folder / manifest.artifact, artifact)
    _write_file(folder / MANIFEST_NAME, document.encode())
    return read_candidate(folder)


def copy_candidate(candidate: Candidate, folder: Path) -> Candidate:
    """Write the bytes that were read, not the files they came from; the folder appears whole or not at all."""
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    try:
        _write_file(part / candidate.manifest.artifact, candidate.artifact_bytes)
        _write_file(part / MANIFEST_NAME, candidate.manifest_bytes)
        part.chmod(0o755)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return dataclasses.replace(candidate, folder=folder)


def _write_file(path: Path, data: bytes) -> None:
    """Beside, synced, then renamed: never half a file under its real name."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _read_bytes(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise CandidateError(f"{path}: {error.strerror or error}") from error
    if len(data) > limit:
        raise CandidateError(f"{path}: larger than {limit} bytes, which no candidate needs")
    return data


def _to_plain(value: Any) -> Any:
    """Tuples become lists, and what is not given stays out of the file."""
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items() if item is not None and item != {} and item != ""}
    return [_to_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
