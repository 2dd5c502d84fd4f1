"""The folder in which candidates are kept, each named after the candidate and the beginning of its id."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from opc_ros.errors import CandidateError, OpcError
from opc_ros.policies.candidate import Candidate, copy_candidate, read_candidate, write_candidate
from opc_ros.policies.manifest import MANIFEST_NAME


class CandidateRegistry:
    """Candidates in one folder; what is added is copied, so training may continue in the original folder."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path).expanduser()

    @property
    def path(self) -> Path:
        return self._path

    def add(self, candidate: Candidate) -> Candidate:
        """Keep a copy; adding the same candidate again changes nothing."""
        folder = self._path / f"{candidate.name}-{candidate.id[:12]}"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if not folder.exists():
                return copy_candidate(candidate, folder)
        except OSError as error:
            raise CandidateError(f"{folder}: {error.strerror or error}") from error
        kept = read_candidate(folder)
        if kept.id != candidate.id:
            raise CandidateError(f"{folder}: has id {kept.id[:12]}, so it was changed since it was added; remove it")
        return kept

    def remove(self, ref: str) -> Path:
        """Take a candidate out of the registry, readable or not; its folder is kept below `.removed`."""
        folder = next((path for path in self.folders() if ref and ref in (path.name, str(path))), None)
        folder = folder or self.find(ref).folder
        if folder.resolve().parent != self._path.resolve():
            raise CandidateError(f"candidate {ref!r}: lies in {folder.parent}, not in the registry {self._path}")
        kept = self._path / ".removed" / f"{folder.name}-{time.strftime('%Y%m%dT%H%M%S')}"
        try:
            kept.parent.mkdir(exist_ok=True)
            folder.rename(kept)
        except OSError as error:
            raise CandidateError(f"{folder}: cannot be removed: {error.strerror or error}") from error
        return kept

    def rename(self, ref: str, name: str) -> Candidate:
        """Register the same policy under another name, and therefore another id, and take the old one out."""
        found = self.find(ref)
        if name == found.name:
            raise CandidateError(f"candidate {ref!r}: is already called {name!r}")
        try:
            manifest = dataclasses.replace(found.manifest, name=name)
        except ValueError as error:
            raise CandidateError(f"candidate {ref!r}: {error}") from error
        with tempfile.TemporaryDirectory() as folder:
            renamed = self.add(write_candidate(Path(folder), manifest, found.artifact_bytes))
        self.remove(str(found.folder))
        return renamed

    def folders(self) -> list[Path]:
        """All candidate folders, by name."""
        if not self._path.is_dir():
            raise CandidateError(f"{self._path}: no such folder; `opc candidate add` makes it")
        return sorted(path.parent for path in self._path.glob(f"[!.]*/{MANIFEST_NAME}"))

    def read_all(self) -> Iterator[Candidate | tuple[Path, OpcError]]:
        """Every candidate, or its folder and why it cannot be read."""
        for folder in self.folders():
            try:
                yield read_candidate(folder)
            except OpcError as error:
                yield folder, error

    def find(self, ref: str) -> Candidate:
        """Find a candidate by folder, by name, or by the beginning of its id."""
        return self._find_all([ref])[0]

    def find_each(self, refs: Sequence[str]) -> tuple[list[Candidate], list[tuple[Path, OpcError]]]:
        """The requested candidates; without a request, all, and the unreadable folders with the reason."""
        if refs:
            return self._find_all(refs), []
        found, unreadable = [], []
        for candidate in self.read_all():
            if isinstance(candidate, Candidate):
                found.append(candidate)
            else:
                unreadable.append(candidate)
        return found, unreadable

    def _find_all(self, refs: Sequence[str]) -> list[Candidate]:
        """Reads the registry at most once, and not at all if all references are folders."""
        kept: list[Candidate] | None = None
        found = []
        for ref in refs:
            if not ref:
                raise CandidateError("candidate '': expected a folder, a name or the beginning of an id")
            if (Path(ref) / MANIFEST_NAME).is_file():
                found.append(read_candidate(ref))
                continue
            if kept is None:
                kept = [candidate for candidate in self.read_all() if isinstance(candidate, Candidate)]
            found.append(self._pick(ref, kept))
        return found

    def _pick(self, ref: str, kept: Sequence[Candidate]) -> Candidate:
        matching = [candidate for candidate in kept if candidate.name == ref or candidate.id.startswith(ref)]
        if not matching:
            raise CandidateError(f"candidate {ref!r}: neither a folder nor a name or id in {self._path}")
        if len(matching) > 1:
            ids = ", ".join(candidate.id[:12] for candidate in matching[:4])
            raise CandidateError(f"candidate {ref!r}: is one of {len(matching)} ({ids}); give the beginning of its id")
        return matching[0]
