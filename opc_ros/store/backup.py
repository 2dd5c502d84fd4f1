"""Verified backups: a copy counts only after every byte of it was compared with its digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opc_ros.errors import StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.blobs import Blobs
from opc_ros.store.locations import find_blobs
from opc_ros.store.store import open_store
from opc_ros.store.store_sync import MARKER, SyncResult, sync_blobs
from opc_ros.store.verification import Verification, verify


@dataclass(frozen=True, slots=True)
class CheckedCopy:
    """A copy, and what reading all of it found."""

    copied: SyncResult
    verified: Verification

    @property
    def is_good(self) -> bool:
        return self.copied.is_complete and not self.verified.problems


def copy_and_verify(source: Path | str, target: Path | str, *, report: Report = ignore_progress) -> CheckedCopy:
    """Copy what the target lacks, then read and hash the whole target; both `backup` and `restore` are this."""
    copied = sync_stores(source, target, report=report)
    with open_store(target) as copy:
        return CheckedCopy(copied, verify(copy, report=report))


def sync_stores(source: Path | str, target: Path | str, *, report: Report = ignore_progress) -> SyncResult:
    """Copy everything that the target lacks from the source; creates the target if there is none."""
    here, there = find_blobs(source), find_blobs(target, is_target=True)
    if here.name == there.name:
        raise StoreError(f"{here.name}: is both source and target, expected two stores")
    if here.head(MARKER) is None:
        raise StoreError(f"{here.name}: not a validation store (it has no {MARKER})")
    _refuse_stranger(there)
    return sync_blobs(here, there, report=report)


def _refuse_stranger(there: Blobs) -> None:
    """Refuse a target that is neither a store nor empty."""
    first = next(iter(there.list()), None)
    if first is not None and there.head(MARKER) is None:
        raise StoreError(f"{there.name}: holds {first.key!r} and is no store; name a new or empty place")
