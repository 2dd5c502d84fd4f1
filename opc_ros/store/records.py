"""What the store says about a committed episode."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from opc_ros.episode import Label
from opc_ros.task import GRASPING

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class CommittedEpisode:
    """One episode of the store, with its newest label at the time it was looked up."""

    id: str
    robot: str
    behaviour_policy: str
    object_set: str
    permit_id: str
    began_ns: int
    duration_ns: int  # from beginning to end
    steps: int
    label: Label
    label_revision: int  # 0: the label it was committed with
    file_sha256: str
    file_bytes: int
    health: tuple[str, ...]  # one line for each problem during recording
    committed_ns: int
    task: str = GRASPING.name
    seed: int | None = None

    @property
    def is_labelled(self) -> bool:
        return self.label.is_success is not None


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The document that commits an episode."""

    id: str
    robot: str
    behaviour_policy: str
    object_set: str
    permit_id: str
    began_ns: int
    duration_ns: int
    steps: int
    label: Label
    file_sha256: str
    file_bytes: int
    health: tuple[str, ...]
    committed_ns: int
    task: str = GRASPING.name
    seed: int | None = None

    def __post_init__(self) -> None:
        if _SHA256.fullmatch(self.file_sha256) is None:
            raise ValueError(f"file_sha256 is {self.file_sha256!r}, expected 64 lower-case hex digits")
        if self.steps < 1 or self.file_bytes < 1 or self.duration_ns < 0:
            raise ValueError("steps, file_bytes or duration_ns is too small")

    def to_committed(self) -> CommittedEpisode:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return CommittedEpisode(**values, label_revision=0)
