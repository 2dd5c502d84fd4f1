"""Migrates candidates from format version 1 to 2: what used to be defaults in code is written into the manifest."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opc_ros.config import parse_config
from opc_ros.documents import parse_yaml, read_bytes
from opc_ros.errors import CandidateError
from opc_ros.policies.action_search import ChoiceSearch, CrossEntropySearch
from opc_ros.policies.architectures import state_hyper_parameters
from opc_ros.policies.candidate import candidate_id, read_artifact, read_candidate, write_candidate
from opc_ros.policies.input_spec import InputSpec, Normalisation
from opc_ros.policies.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    CandidateManifest,
    Provenance,
    canonical_manifest,
)

KEPT_NAME = "candidate.version-1.yaml"  # the old manifest, beside the new one
_ID_SHOWN = 12  # characters of an id in notes, in folder names of a registry and in output


@dataclass(frozen=True, slots=True)
class Migrated:
    """The old and the new id of a candidate."""

    old_id: str
    new_id: str
    folder: Path


@dataclass(frozen=True, slots=True)
class _ManifestVersion1:
    format_version: int
    name: str
    artifact: str
    format: str
    input: InputSpec
    architecture: str = ""
    hyper_parameters: dict[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)


def find_old_candidates(folders: Iterable[Path]) -> list[Path]:
    """The folders whose manifest has version 1."""
    return [folder for folder in folders if _version_of(folder) == 1]


def migrate_candidates(folders: Iterable[Path]) -> list[Migrated]:
    """Migrate every version-1 folder to version 2; the old manifest is kept beside the new one, weights are untouched.

    Ids mentioned in notes (an average names its members) are replaced too, so members are migrated before averages.
    """
    old = find_old_candidates(folders)
    old.sort(key=lambda folder: _read_version1(folder).architecture == "average")
    done: list[Migrated] = []
    for folder in old:
        done.append(_migrate(folder, {one.old_id: one.new_id for one in done}))
    return done


def _migrate(folder: Path, renamed: Mapping[str, str]) -> Migrated:
    manifest = _read_version1(folder)
    where = f"candidate {manifest.name}"
    manifest_bytes = read_bytes(folder / MANIFEST_NAME, error=CandidateError)
    artifact = read_artifact(folder / manifest.artifact)
    old_id = candidate_id(canonical_manifest(manifest_bytes, where=where), artifact)
    if not (folder / KEPT_NAME).exists():
        shutil.copy2(folder / MANIFEST_NAME, folder / KEPT_NAME)
    written = write_candidate(folder, _to_version2(manifest, renamed, where), artifact)
    # Folders in a registry are named after the id.
    if folder.name == f"{manifest.name}-{old_id[:_ID_SHOWN]}":
        folder = folder.rename(folder.with_name(f"{manifest.name}-{written.id[:_ID_SHOWN]}"))
    return Migrated(old_id, read_candidate(folder).id, folder)


def _to_version2(old: _ManifestVersion1, renamed: Mapping[str, str], where: str) -> CandidateManifest:
    """What version 1 left to the code: the search of `opc evaluate`, and the architectures' constants."""
    notes = old.provenance.notes
    for before, after in renamed.items():
        notes = notes.replace(before[:_ID_SHOWN], after[:_ID_SHOWN])
    normalisation = Normalisation(image_range=(0.0, 1.0)) if old.architecture == "region_moments" else Normalisation()
    stated = state_hyper_parameters(old.architecture, old.hyper_parameters, where=where) if old.architecture else {}
    try:
        return CandidateManifest(
            format_version=FORMAT_VERSION,
            name=old.name,
            artifact=old.artifact,
            format=old.format,
            input=dataclasses.replace(old.input, normalisation=normalisation),
            architecture=old.architecture,
            hyper_parameters=stated,
            action_search=CrossEntropySearch() if old.input.action_choices is None else ChoiceSearch(),
            provenance=dataclasses.replace(old.provenance, notes=notes),
        )
    except ValueError as error:
        raise CandidateError(f"{where}: {error}") from error


def _version_of(folder: Path) -> object:
    document = _read_document(folder)
    return document.get("format_version") if isinstance(document, dict) else None


def _read_version1(folder: Path) -> _ManifestVersion1:
    where = str(folder / MANIFEST_NAME)
    return parse_config(_read_document(folder), _ManifestVersion1, where=where, error=CandidateError)


def _read_document(folder: Path) -> object:
    path = folder / MANIFEST_NAME
    return parse_yaml(read_bytes(path, error=CandidateError), where=str(path), error=CandidateError)
