"""Stores a stop on disk in each node that received it, so that no restart lifts it."""

from __future__ import annotations

from pathlib import Path

from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import make_folder, replace_file, sync_folder
from opc_ros.errors import OpcError

NAME = "stop.json"


class StopMemory:
    """One arm's stop as a file below a folder; a file that cannot be read is a stop."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._path = folder / NAME

    def recall(self) -> tuple[str, int] | None:
        """Why and when the arm was stopped; None if no stop is in force."""
        if not self._path.exists():
            return None
        try:
            document = parse_json(read_bytes(self._path, limit=1 << 16), where=str(self._path))
            return str(document["reason"]), int(document["stamp_ns"])
        except (OpcError, KeyError, TypeError, ValueError):
            return f"{self._path} cannot be read, so it counts as a stop", 0

    def keep(self, reason: str, stamp_ns: int) -> None:
        replace_file(self._path, canonical_json({"reason": reason, "stamp_ns": stamp_ns}).encode())

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_folder(self._path.parent)
