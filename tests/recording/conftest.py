"""A recorder with clocks, a disk and an arm that tests control."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from opc_ros.episode import Frame
from opc_ros.grasp import GraspAction, ToolState
from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.recorder import Recorder, RecorderEnvironment
from opc_ros.recording.running_episode import StepReport
from opc_ros.recording.settings import RecorderSettings
from opc_ros.recording.sink import EpisodeSink, MemorySink

SECOND = 1_000_000_000
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


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    recorders = []

    def make(sink: EpisodeSink | None = None, **settings: object) -> Bench:
        clock, outcomes, arrived = Clock(), [], threading.Condition()
        used = sink or MemorySink()

        def tell(outcome: RecordingOutcome) -> None:
            with arrived:
                outcomes.append(outcome)
                arrived.notify_all()

        recorder = Recorder(
            "arm1",
            dataclasses.replace(RecorderSettings(), **settings),  # type: ignore[arg-type]
            used,
            RecorderEnvironment(
                stamp_ns=lambda: clock.mono_ns,
                wall_ns=lambda: clock.mono_ns + clock.wall_offset_ns,
                mono_ns=lambda: clock.mono_ns,
                free_bytes=lambda: clock.free_bytes,
            ),
            tell,
        )
        recorders.append(recorder)
        return Bench(recorder, used, outcomes, clock, arrived)  # type: ignore[arg-type]

    yield make
    for recorder in recorders:
        assert recorder.close("the test is over"), "the disk thread did not end"
