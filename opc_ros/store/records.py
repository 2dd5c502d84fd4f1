"""What the store says about an episode: its header when it begins, its record once committed."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from opc_ros.errors import StoreError
from opc_ros.grasp import Label, LabelSource

MAX_STAMP_NS = 2**31 * 1_000_000_000  # a ROS time has 32 bits of seconds

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class EpisodeHeader:
    """What is known of an episode when it begins."""

    id: str
    robot: str
    behaviour_policy: str
    began_ns: int
    object_set: str = ""
    permit_id: str = ""

    def __post_init__(self) -> None:
        check_name("episode id", self.id)
        check_name("robot", self.robot)
        check_stamp(f"episode {self.id}: beginning", self.began_ns)
        for text in (self.behaviour_policy, self.object_set, self.permit_id):
            check_text(f"episode {self.id}", text)


@dataclass(frozen=True, slots=True)
class CommittedEpisode:
    """One episode of the store, with the newest label it had when it was looked up."""

    id: str
    robot: str
    behaviour_policy: str
    object_set: str
    permit_id: str
    began_ns: int
    duration_ns: int  # from its beginning to its end
    steps: int
    label: Label
    label_revision: int  # 0: the label it was committed with
    file_sha256: str
    file_bytes: int
    health: tuple[str, ...]  # one line for each thing that was not as it should be
    committed_ns: int

    @property
    def is_labelled(self) -> bool:
        return self.label.is_success is not None


@dataclass(frozen=True, slots=True)
class LabelBody:
    """A label as JSON documents spell it."""

    is_success: bool | None
    source: str
    labeller: str

    @classmethod
    def of(cls, label: Label) -> LabelBody:
        return cls(is_success=label.is_success, source=label.source.value, labeller=label.labeller)

    def to_label(self) -> Label:
        return Label(is_success=self.is_success, source=LabelSource(self.source), labeller=self.labeller)


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
    label: LabelBody
    file_sha256: str
    file_bytes: int
    health: tuple[str, ...]
    committed_ns: int

    def __post_init__(self) -> None:
        if _SHA256.fullmatch(self.file_sha256) is None:
            raise ValueError(f"file_sha256 is {self.file_sha256!r}, expected 64 lower-case hex digits")
        if self.steps < 1 or self.file_bytes < 1 or self.duration_ns < 0:
            raise ValueError("steps, file_bytes or duration_ns is too small")

    def to_committed(self) -> CommittedEpisode:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["label"] = self.label.to_label()
        return CommittedEpisode(**values, label_revision=0)


def check_name(what: str, name: str) -> None:
    """Names of episodes, robots and tags become file names."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise StoreError(
            f"{what}: got {name!r}, expected up to 120 letters, digits, '_', '-' or '.', not beginning with '-' or '.'"
        )


def check_stamp(what: str, stamp_ns: int) -> None:
    if not 0 <= stamp_ns < MAX_STAMP_NS:
        raise StoreError(f"{what} is at {stamp_ns} ns, expected from 0 to below {MAX_STAMP_NS}")


def check_text(what: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise StoreError(f"{what}: text {text!r} cannot be written as UTF-8") from None
