"""An episode's path to disk, from its first step to its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from opc_ros.episode import EpisodeHeader, Label, WireMessage
from opc_ros.errors import OpcError
from opc_ros.grasp import GraspStep
from opc_ros.recording.sink import EpisodeSink, Saved, SinkWriter


@dataclass(frozen=True, slots=True)
class RecordingOutcome:
    """What became of an episode."""

    start: EpisodeHeader
    kind: Literal["saved", "quarantined", "discarded"]
    steps: int
    duration_s: float
    label: Label
    reason: str = ""  # empty if saved
    health: tuple[str, ...] = ()
    saved: Saved | None = None

    def __str__(self) -> str:
        """One line for people."""
        if self.kind != "saved":
            return f"{self.start.id}: {self.kind}: {self.reason}"
        verdict = {None: "unlabelled", True: "success", False: "failure"}[self.label.is_success]
        return f"{self.start.id}: saved, {self.steps} steps, {verdict}"


class EpisodeFile:
    """An episode's file, used on the disk thread, which later episodes need too: so none of its methods raises.

    An error of the disk becomes the reason for quarantine.
    """

    def __init__(self, sink: EpisodeSink, start: EpisodeHeader) -> None:
        self._sink = sink
        self._start = start
        self._writer: SinkWriter | None = None
        self._failure = ""

    def open(self) -> None:
        try:
            self._writer = self._sink.begin(self._start)
        except Exception as error:
            self._failure = f"could not be begun: {_one_line(error)}"

    def add(self, step: GraspStep | None, beside: Sequence[WireMessage] = ()) -> None:
        """Write the messages that arrived since the previous step, then the step."""
        if self._writer is None or self._failure:
            return
        try:
            for message in beside:
                self._writer.add_wire_message(message)
            if step is not None:
                self._writer.add_step(step)
        except Exception as error:
            self._failure = f"could not be written: {_one_line(error)}"

    def close(self, intended: RecordingOutcome) -> RecordingOutcome:
        """Carry out the intended outcome, or quarantine if that fails; returns what was done."""
        if intended.kind == "discarded":
            return self._discard(intended)
        if intended.kind == "saved" and not self._failure:
            try:
                assert self._writer is not None
                return replace(intended, saved=self._writer.commit(intended.label, intended.health))
            except Exception as error:
                self._failure = f"could not be committed: {_one_line(error)}"
        return self._quarantine(intended)

    def _discard(self, intended: RecordingOutcome) -> RecordingOutcome:
        try:
            if self._writer is not None:
                self._writer.discard()
        except Exception as error:
            return replace(intended, reason=f"{intended.reason}; its file could not be removed: {_one_line(error)}")
        return intended

    def _quarantine(self, intended: RecordingOutcome) -> RecordingOutcome:
        reason = "; ".join(text for text in (self._failure, intended.reason) if text)
        try:
            if self._writer is not None:
                self._writer.quarantine(reason, intended.health)
        except Exception as error:
            reason += f"; and could not be quarantined: {_one_line(error)}: run opc store recover"
        return replace(intended, kind="quarantined", reason=reason)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, OpcError | OSError) else f"{type(error).__name__}: {text}"
