"""What a person at the robot wants to see of a recorder."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.health import HealthFinding

State = Literal["waiting", "recording", "saving", "refusing"]


@dataclass(frozen=True, slots=True)
class RecorderView:
    """The state of a recorder at one moment."""

    state: State
    reason: str
    episode_id: str
    steps: int
    frames_received: int
    frames_dropped: int
    frame_rate_hz: float
    queue_length: int
    queue_capacity: int
    disk_free_bytes: int
    episodes_saved: int
    episodes_quarantined: int
    episodes_unlabelled: int
    last_outcome: str
    health: tuple[str, ...]


class OutcomeCounts:
    """Counts of episodes by outcome; written by the disk thread, read by others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unlabelled: set[str] = set()
        self.saved = 0
        self.quarantined = 0
        self.last_outcome = ""
        self.last_saved_id = ""

    @property
    def unlabelled(self) -> int:
        return len(self._unlabelled)

    def add(self, outcome: RecordingOutcome) -> None:
        with self._lock:
            self.last_outcome = str(outcome)
            self.quarantined += outcome.kind == "quarantined"
            if outcome.kind != "saved":
                return
            self.saved += 1
            self.last_saved_id = outcome.start.id
            if outcome.label.is_success is None:
                self._unlabelled.add(outcome.start.id)

    def add_unlabelled(self, ids: Iterable[str]) -> None:
        """Add earlier episodes that still wait for a label."""
        found = list(ids)
        with self._lock:
            self._unlabelled.update(found)

    def forget_unlabelled(self, episode_id: str) -> None:
        with self._lock:
            self._unlabelled.discard(episode_id)


class HealthBoard:
    """The latest finding of each watch, shown for a while."""

    SHOWN_NS = 30_000_000_000

    def __init__(self) -> None:
        self._found: dict[str, tuple[HealthFinding, int]] = {}

    def add(self, finding: HealthFinding, mono_ns: int) -> None:
        self._found[finding.watch] = (finding, mono_ns)

    def current(self, mono_ns: int) -> tuple[HealthFinding, ...]:
        return tuple(finding for finding, seen_ns in self._found.values() if mono_ns - seen_ns <= self.SHOWN_NS)
