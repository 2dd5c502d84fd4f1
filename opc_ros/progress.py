"""How long-running functions report progress, whoever listens."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """What long-running functions call: how much is done, of how much, and a few words on the current state."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


def ignore_progress(done: int, total: int, note: str = "") -> None:
    """For callers that do not need reports."""
