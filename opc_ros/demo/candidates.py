"""Which candidates the demo uses, and the copy that somebody tampered with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TypeVar

from opc_ros.errors import CandidateError
from opc_ros.policies.candidate import Candidate, read_candidate, write_candidate
from opc_ros.policies.manifest import MANIFEST_NAME

T = TypeVar("T")


def read_candidates(folder: Path) -> list[Candidate]:
    """All candidates in a folder, by name."""
    return [read_candidate(path.parent) for path in sorted(folder.glob(f"*/{MANIFEST_NAME}"))]


def choose_candidates(folder: Path, most: int, known: Collection[str] = ()) -> list[Candidate]:
    """The last checkpoint of each training run; if there are too many runs, a selection spread evenly over their names.

    With `known` names, only those. Nothing is assumed about how good they are: that is what the demo finds out.
    """
    last: dict[str, Candidate] = {}
    for candidate in read_candidates(folder):
        if known and candidate.name not in known:
            continue
        run = candidate.manifest.provenance.training_run or candidate.name
        if run not in last or _step(candidate) >= _step(last[run]):
            last[run] = candidate
    if not last:
        raise CandidateError(f"{folder}: holds no candidates, expected folders with {MANIFEST_NAME}")
    return [last[run] for run in spread(sorted(last), most)]


def choose_measured(folder: Path, most: int, known: Collection[str]) -> list[Candidate]:
    """Earlier checkpoints of the runs whose last one `choose_candidates` takes, as far as they are `known`."""
    newest = choose_candidates(folder, most, known)
    runs = {candidate.manifest.provenance.training_run for candidate in newest}
    names = {candidate.name for candidate in newest}
    return [
        candidate
        for candidate in read_candidates(folder)
        if candidate.name in known
        and candidate.name not in names
        and candidate.manifest.provenance.training_run in runs
    ]


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most this many items, spread evenly over the list."""
    if len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]


def tamper_with(candidate: Candidate, folder: Path) -> Candidate:
    """A copy with the same name and one changed byte in its weights."""
    changed = bytearray(candidate.artifact_bytes)
    changed[-1] ^= 1
    return write_candidate(folder, candidate.manifest, bytes(changed))


def _step(candidate: Candidate) -> int:
    return candidate.manifest.provenance.step or 0
