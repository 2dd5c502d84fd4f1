"""Plays arm, camera, clock and disk for one recorder, as tests tell it to."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, ToolState
from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.recorder import Recorder
from opc_ros.recording.running_episode import StepReport
from opc_ros.recording.sink import MemorySink

SECOND = 1_000_000_000
HELD = Label(is_success=True, source=LabelSource.EPISODE_END, labeller="arm1")
TOOL = ToolState(x_m=0.5, y_m=0.0, z_m=0.3, yaw_rad=0.0, aperture_m=0.08)


@dataclass
class Bench:
    """Plays arm, camera and clock for one recorder."""

    recorder: Recorder
    sink: MemorySink
    outcomes: list[RecordingOutcome]
    clock: Clock
    arrived: threading.Condition

    def frame(self, number: int, data: bytes | None = None) -> None:
        """A camera frame, with timestamp 1000 s by the clock plus 0.1 s for each number."""
        content = b"image %d" % number if data is None else data
        self.recorder.add_frame(Frame(stamp_ns=stamp(number), encoding="jpeg", data=content))

    def step(self, number: int, episode_id: str = "e1", *, index: int | None = None, **action: object) -> None:
        self.recorder.add_step(
            StepReport(
                episode_id=episode_id,
                index=number if index is None else index,
                stamp_ns=stamp(number),
                tool=TOOL,
                action=GraspAction(**action),  # type: ignore[arg-type]
            )
        )

    def act(self, number: int, episode_id: str = "e1", **step: Any) -> None:
        """A frame, and the step that was chosen on it."""
        self.frame(number)
        self.step(number, episode_id, **step)

    def play(self, steps: int = 3, episode_id: str = "e1", label: Label = HELD, first: int = 0) -> None:
        """A whole episode of small moves down."""
        self.recorder.begin(episode_id, "scripted", "cubes", "permit-7")
        for index in range(steps):
            self.act(first + index, episode_id, index=index, displacement_m=(0.0, 0.0, -0.01))
        self.recorder.end(episode_id, label, steps)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.recorder.tick()

    def outcome(self, count: int = 1) -> RecordingOutcome:
        """The newest of `count` outcomes, once the disk thread has reported them."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.outcomes) >= count, timeout=5), self.outcomes
        return self.outcomes[count - 1]


@dataclass
class Clock:
    """Stands still until told otherwise; the wall clock may be set independently."""

    mono_ns: int = 1000 * SECOND
    wall_offset_ns: int = 0
    free_bytes: int = 10**12

    def advance(self, seconds: float) -> None:
        self.mono_ns += int(seconds * SECOND)


def stamp(number: int) -> int:
    return 1000 * SECOND + number * SECOND // 10
