"""Disks that are nearly full, slow or refuse: nobody waits for them, and no episode counts as saved that is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from opc_ros.episode import EpisodeHeader, Label
from opc_ros.errors import RecordingError, StoreError
from opc_ros.grasp import GraspStep
from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.sink import MemorySink, Saved, SinkWriter
from tests.recording.bench import HELD


def test_a_nearly_full_disk_refuses_the_next_episode_and_finishes_this_one(make_bench) -> None:
    bench = make_bench(min_disk_free_mb=100.0)
    bench.recorder.begin("e1")
    bench.clock.free_bytes = 99_000_000
    bench.pass_time(0.1)
    bench.act(0)
    bench.recorder.end("e1", HELD, 1)
    assert bench.outcome().kind == "saved"
    assert bench.outcome().health == ("disk: 99 MB free, expected 100: make room",)
    with pytest.raises(RecordingError, match=r"^episode e2 is not recorded: disk: 99 MB free"):
        bench.recorder.begin("e2")
    assert bench.recorder.view().state == "refusing"
    bench.clock.free_bytes = 101_000_000
    bench.pass_time(0.1)
    assert bench.recorder.begin("e3") == "e3"


class SlowSink(MemorySink):
    """A disk that does nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def begin(self, start: EpisodeHeader) -> SinkWriter:
        assert self.gate.wait(5)
        return super().begin(start)


def test_a_slow_disk_never_blocks_the_caller_and_what_it_cannot_take_is_counted(make_bench) -> None:
    sink = SlowSink()
    bench = make_bench(sink, queue_capacity=2)
    bench.play(steps=6)
    view = bench.recorder.view()
    sink.gate.set()
    # The opening waits, then there is room for two steps or one, depending on whether the disk thread has taken the
    # opening.
    assert view.frames_dropped in (4, 5)
    assert bench.outcome().kind == "quarantined"
    assert "was dropped: 2 steps wait for the disk" in bench.outcome().reason


class FailingWriter:
    def __init__(self, fails_at: str) -> None:
        self._fails_at = fails_at

    def add_step(self, step: GraspStep) -> None:
        self._fail("add_step")

    def commit(self, label: Label, health: Sequence[str]) -> Saved:
        self._fail("commit")
        return Saved("", 0)

    def quarantine(self, reason: str, health: Sequence[str]) -> None:
        self._fail("quarantine")

    def discard(self) -> None:
        self._fail("discard")

    def _fail(self, name: str) -> None:
        if name in self._fails_at:
            raise StoreError("No space left on device")


class FailingSink(MemorySink):
    def __init__(self, fails_at: str) -> None:
        super().__init__()
        self.fails_at = fails_at

    def begin(self, start: EpisodeHeader) -> SinkWriter:
        if self.fails_at == "begin":
            raise StoreError("No space left on device")
        return FailingWriter(self.fails_at)


@pytest.mark.parametrize(
    ("fails_at", "reason"),
    [
        ("begin", "could not be begun: No space left on device"),
        ("add_step", "could not be written: No space left on device"),
        ("commit", "could not be committed: No space left on device"),
        (
            "commit quarantine",
            "could not be committed: No space left on device; and could not be quarantined: No space left on device:"
            " run opc store recover",
        ),
    ],
)
def test_a_disk_that_refuses_never_lets_an_episode_count_as_saved(
    make_bench: Callable, fails_at: str, reason: str
) -> None:
    bench = make_bench(FailingSink(fails_at))
    bench.play()
    outcome: RecordingOutcome = bench.outcome()
    assert (outcome.kind, outcome.reason, outcome.saved) == ("quarantined", reason, None)
    assert bench.recorder.view().episodes_saved == 0
