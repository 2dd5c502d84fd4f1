"""A candidate: manifest and artifact, read once, identified by the digest of exactly the bytes that will run."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from opc_ros.documents import read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import CandidateError
from opc_ros.policies.manifest import MANIFEST_NAME, CandidateManifest, canonical_manifest, parse_manifest
from opc_ros.policies.members import MEMBERS_NAME, read_linked_artifact

MAX_ARTIFACT_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Candidate:
    """What gets scored, permitted and run: its id names the bytes, and it holds those bytes."""

    id: str  # sha256, lower-case hex, over canonical manifest and artifact
    manifest: CandidateManifest
    manifest_bytes: bytes = dataclasses.field(repr=False)
    artifact_bytes: bytes = dataclasses.field(repr=False)
    folder: Path

    @property
    def name(self) -> str:
        return self.manifest.name


def read_candidate(folder: Path | str, *, follows_links: bool = True) -> Candidate:
    """Read each file once; everything after this works on those bytes, whatever happens to the files.

    A folder from elsewhere is read without following links, which could point to files that only the reader may read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CandidateError(f"candidate {folder}: no such folder")
    where = str(folder / MANIFEST_NAME)
    manifest_bytes = read_bytes(folder / MANIFEST_NAME, error=CandidateError, follows_links=follows_links)
    manifest = parse_manifest(manifest_bytes, where=where)
    artifact_bytes = _read_artifact_of(folder, manifest, follows_links=follows_links)
    return Candidate(
        id=candidate_id(canonical_manifest(manifest_bytes, where=where), artifact_bytes),
        manifest=manifest,
        manifest_bytes=manifest_bytes,
        artifact_bytes=artifact_bytes,
        folder=folder,
    )


def find_change(candidate: Candidate) -> str:
    """How its files have changed since they were read; empty if they are still this candidate."""
    try:
        manifest_bytes = read_bytes(candidate.folder / MANIFEST_NAME, error=CandidateError)
        artifact_bytes = _read_artifact_of(candidate.folder, candidate.manifest)
        if (manifest_bytes, artifact_bytes) == (candidate.manifest_bytes, candidate.artifact_bytes):
            return ""
        now = read_candidate(candidate.folder).id
    except CandidateError as error:
        return str(error)
    # Another layout of the same manifest is still the same candidate.
    return "" if now == candidate.id else f"id was {candidate.id[:12]}, is {now[:12]}"


def candidate_id(canonical: bytes, artifact: bytes) -> str:
    """One sha256 over the digests of both parts, so that no byte can move from one part to the other."""
    parts = (hashlib.sha256(canonical).hexdigest(), hashlib.sha256(artifact).hexdigest())
    return hashlib.sha256("\n".join(("opc candidate 1", *parts, "")).encode()).hexdigest()


def write_candidate(folder: Path | str, manifest: CandidateManifest, artifact: bytes) -> Candidate:
    """Write a candidate folder, the manifest last, and read it back."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    document = yaml.safe_dump(manifest.to_document(), sort_keys=False, allow_unicode=True)
    replace_file(folder / manifest.artifact, artifact)
    (folder / MEMBERS_NAME).unlink(missing_ok=True)
    replace_file(folder / MANIFEST_NAME, document.encode())
    return read_candidate(folder)


def copy_candidate(candidate: Candidate, folder: Path) -> Candidate:
    """Write the bytes that were read, not the files they came from; the folder appears whole or not at all."""
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    try:
        replace_file(part / candidate.manifest.artifact, candidate.artifact_bytes)
        replace_file(part / MANIFEST_NAME, candidate.manifest_bytes)
        part.chmod(0o755)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return dataclasses.replace(candidate, folder=folder)


def _read_artifact_of(folder: Path, manifest: CandidateManifest, *, follows_links: bool = True) -> bytes:
    """The file that the manifest names, or the file that an average's members make up."""
    if manifest.architecture != "average" or not (folder / MEMBERS_NAME).exists():
        return read_artifact(folder / manifest.artifact, follows_links=follows_links)
    if (folder / manifest.artifact).exists():
        raise CandidateError(f"{folder}: holds {manifest.artifact} and {MEMBERS_NAME}, expected one of them")
    return read_linked_artifact(folder, _read_member)


def _read_member(folder: Path) -> tuple[str, bytes]:
    member = read_candidate(folder)
    return member.id, member.artifact_bytes


def read_artifact(path: Path, *, follows_links: bool = True) -> bytes:
    """The whole file, if it is no larger than a candidate can be."""
    return read_bytes(path, limit=MAX_ARTIFACT_BYTES, error=CandidateError, follows_links=follows_links)
