"""Recorders on a bench, closed when their test is over."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator

import pytest

from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.recorder import Recorder, RecorderEnvironment
from opc_ros.recording.settings import RecorderSettings
from opc_ros.recording.sink import EpisodeSink, MemorySink
from tests.recording.bench import Bench, Clock


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
