"""Candidates that only an experiment needs: taken from the repository's history on demand, and checked by id."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opc_ros.config import parse_config
from opc_ros.documents import parse_yaml, read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import CandidateError, ConfigError, SetupError
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.manifest import MANIFEST_NAME, parse_manifest

FORMAT_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Archive:
    """One archived.yaml: the commit, the folder in it, and the id that each candidate there must have."""

    format_version: int
    commit: str
    folder: str
    candidates: dict[str, str]  # name: id

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, this opc_ros reads {FORMAT_VERSION}")
        if not re.fullmatch(r"[0-9a-f]{40}", self.commit):
            raise ValueError(f"commit is {self.commit[:80]!r}, expected 40 hexadecimal digits")
        for name in self.candidates:
            if not _NAME.fullmatch(name):
                raise ValueError(f"candidates: {name[:80]!r} is no name of a folder")


def read_archive(path: Path) -> Archive:
    document = parse_yaml(read_bytes(path), where=str(path))
    return parse_config(document, Archive, where=str(path), error=ConfigError)


def restore_archived(path: Path, into: Path) -> list[Candidate]:
    """Every archived candidate, in folders below `into`; existing ones are only checked."""
    archive = read_archive(path)
    restored = []
    for name, wanted in archive.candidates.items():
        folder = into / name
        if not (folder / MANIFEST_NAME).is_file():
            _take_from_history(path.resolve().parent, archive, name, folder)
        candidate = read_candidate(folder)
        if candidate.id != wanted:
            raise CandidateError(f"{folder}: has id {candidate.id[:12]}, {path} pins {wanted[:12]}; remove the folder")
        restored.append(candidate)
    return restored


def _take_from_history(repository: Path, archive: Archive, name: str, folder: Path) -> None:
    source = PurePosixPath(archive.folder) / name
    manifest_bytes = _show(repository, archive.commit, source / MANIFEST_NAME)
    artifact = parse_manifest(manifest_bytes, where=f"{archive.commit[:12]}:{source}").artifact
    artifact_bytes = _show(repository, archive.commit, source / artifact)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / artifact, artifact_bytes)
    replace_file(folder / MANIFEST_NAME, manifest_bytes)


def _show(repository: Path, commit: str, path: PurePosixPath) -> bytes:
    command = ("git", "-C", str(repository), "cat-file", "blob", f"{commit}:{path}")
    try:
        shown = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise SetupError(f"git cannot be run: {error.strerror or error}") from error
    if shown.returncode != 0:
        raise SetupError(
            f"{path}: this clone does not hold commit {commit[:12]}, where the candidate's files are; "
            f"run `git fetch --depth 1 origin {commit}`"
        )
    return shown.stdout
