from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from opc_ros.episode import EpisodeHeader, Label, LabelSource
from opc_ros.errors import RecordingError, StoreError
from opc_ros.grasp import GraspStep
from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.sink import MemorySink, Saved, SinkWriter

HELD = Label(is_success=True, source=LabelSource.EPISODE_END, labeller="arm1")


def play(bench, steps: int = 3, episode_id: str = "e1", label: Label = HELD, first: int = 0) -> None:
    bench.recorder.begin(episode_id, "scripted", "cubes", "permit-7")
    for index in range(steps):
        bench.frame(first + index)
        bench.step(first + index, episode_id, index=index, displacement_m=(0.0, 0.0, -0.01))
    bench.recorder.end(episode_id, label, steps)


def test_an_episode_keeps_every_frame_action_and_word_about_it(make_bench) -> None:
    bench = make_bench()
    play(bench)
    assert bench.outcome().kind == "saved"
    episode = bench.sink.committed["e1"]
    assert (episode.robot, episode.behaviour_policy, episode.object_set, episode.permit_id) == (
        "arm1",
        "scripted",
        "cubes",
        "permit-7",
    )
    assert [step.frame.data for step in episode.steps] == [b"image 0", b"image 1", b"image 2"]
    assert episode.label == HELD
    assert bench.sink.health["e1"] == ()


def test_topics_that_overtake_each_other_make_no_difference(make_bench) -> None:
    bench = make_bench()
    bench.step(1)
    bench.step(0)
    bench.recorder.begin("e1")
    bench.recorder.end("e1", HELD, 3)
    bench.frame(1)
    bench.frame(0)
    assert bench.recorder.view().state == "saving"
    bench.frame(2)
    bench.step(2)
    assert bench.outcome().kind == "saved"
    assert [step.frame.data for step in bench.sink.committed["e1"].steps] == [b"image 0", b"image 1", b"image 2"]


def test_the_next_episode_may_begin_while_the_one_before_waits_for_its_last_step(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.recorder.end("e1", HELD, 1)
    play(bench, steps=2, episode_id="e2", first=5)
    assert bench.outcome().start.id == "e2"
    bench.frame(0)
    bench.step(0, "e1")
    assert bench.outcome(2).start.id == "e1"
    assert bench.outcomes[1].kind == "saved"


def test_an_episode_whose_frame_never_came_is_quarantined_and_says_which(make_bench) -> None:
    bench = make_bench(pairing_timeout_s=1.0)
    bench.recorder.begin("e1")
    bench.frame(0)
    bench.step(0)
    bench.step(1)
    bench.frame(2)
    bench.step(2)
    bench.recorder.end("e1", HELD, 3)
    bench.pass_time(0.9)
    assert not bench.outcomes
    bench.pass_time(0.2)
    outcome = bench.outcome()
    assert (outcome.kind, outcome.reason) == ("quarantined", "step 1: its frame never came")
    assert bench.recorder.view().frames_dropped == 1
    assert outcome.steps == 2


def test_a_frame_that_left_the_buffer_too_early_is_distinguished_from_one_that_never_came(make_bench) -> None:
    bench = make_bench(frame_buffer_s=0.1, step_timeout_s=100.0)
    bench.recorder.begin("e1")
    bench.frame(0)
    bench.clock.advance(0.2)
    bench.frame(2)
    bench.step(0)
    bench.recorder.end("e1", HELD, 1)
    bench.pass_time(1.1)
    assert bench.outcome().reason == (
        "step 0: its frame had left the buffer before its step came: raise frame_buffer_s or frame_buffer_mb"
    )


def test_many_reasons_are_given_in_one_short_line(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    for number in range(9):
        bench.step(number)
    bench.pass_time(1.1)
    bench.recorder.abort("e1", "collision")
    never_came = "; ".join(f"step {number}: its frame never came" for number in range(3))
    assert bench.outcome().reason == f"collision; {never_came}; and 6 more"


def test_a_lost_step_in_the_middle_is_noticed(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    for number in (0, 1, 4):
        bench.frame(number)
        bench.step(number)
    bench.recorder.end("e1", HELD, 5)
    bench.pass_time(1.1)
    assert bench.outcome().reason == "steps 2 to 3 never came"


def test_a_lost_last_step_is_noticed_by_the_number_of_steps_the_arm_reports(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.frame(0)
    bench.step(0)
    bench.recorder.end("e1", HELD, 2)
    bench.pass_time(1.1)
    assert bench.outcome().reason == "the arm says 2 steps, 1 came"


def test_an_end_without_a_number_of_steps_waits_for_late_ones_unless_the_last_action_terminated(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.frame(0)
    bench.step(0)
    bench.recorder.end("e1", HELD)
    bench.frame(1)
    bench.step(1)
    assert bench.recorder.view().state == "saving"
    bench.frame(2)
    bench.step(2, terminate=True)
    assert bench.outcome().steps == 3


def test_an_episode_without_a_step_is_not_stored(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.recorder.end("e1", HELD)
    bench.pass_time(1.1)
    assert (bench.outcome().kind, bench.outcome().reason) == ("quarantined", "no step came")


def test_timestamps_that_go_back_spoil_an_episode(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    for index, number in enumerate((5, 3)):
        bench.frame(number)
        bench.step(number, index=index)
    bench.recorder.end("e1", HELD, 2)
    assert bench.outcome().reason == "step 1: its frame's stamp went back by 0.200 s"


def test_a_step_after_a_terminating_one_and_a_step_sent_twice_spoil_an_episode(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    for number in (0, 1):
        bench.frame(number)
        bench.step(number, terminate=True)
    bench.step(0)
    bench.recorder.end("e1", HELD, 2)
    assert bench.outcome().reason == "step 1 follows a terminating one; step 0 came twice"


def test_an_unlabelled_episode_is_stored_and_counted_until_a_person_labels_it(make_bench) -> None:
    bench = make_bench()
    play(bench, label=Label())
    assert bench.outcome().label.is_success is None
    assert bench.recorder.view().episodes_unlabelled == 1
    answers: list[int | Exception] = []
    done = threading.Event()
    person = Label(is_success=False, source=LabelSource.PERSON, labeller="ann")
    bench.recorder.label("e1", person, "dropped it", lambda answer: (answers.append(answer), done.set()))
    assert done.wait(5)
    assert answers == [1]
    assert bench.sink.labels["e1"] == [Label(), person]
    assert bench.recorder.view().episodes_unlabelled == 0


def test_a_label_that_comes_while_the_episode_runs_goes_with_it_before_the_end_event(make_bench) -> None:
    bench = make_bench()
    person = Label(is_success=False, source=LabelSource.PERSON, labeller="ann")
    bench.recorder.begin("e1")
    bench.recorder.label("e1", person, "", lambda answer: None)
    bench.frame(0)
    bench.step(0)
    bench.recorder.end("e1", HELD, 1)
    assert bench.outcome().label == person


def test_the_gripper_rule_labels_only_where_the_end_event_does_not(make_bench) -> None:
    bench = make_bench(has_gripper_rule=True)
    play(bench, label=Label())
    assert bench.outcome().label.source is LabelSource.GRIPPER_WIDTH
    assert bench.outcome().label.is_success is False  # it was never told to close
    play(bench, episode_id="e2", label=HELD, first=10)
    assert bench.outcome(2).label == HELD


def test_a_nearly_full_disk_refuses_the_next_episode_and_finishes_this_one(make_bench) -> None:
    bench = make_bench(min_disk_free_mb=100.0)
    bench.recorder.begin("e1")
    bench.clock.free_bytes = 99_000_000
    bench.pass_time(0.1)
    bench.frame(0)
    bench.step(0)
    bench.recorder.end("e1", HELD, 1)
    assert bench.outcome().kind == "saved"
    assert bench.outcome().health == ("disk: 99 MB free, expected 100: make room",)
    with pytest.raises(RecordingError, match=r"^episode e2 is not recorded: disk: 99 MB free"):
        bench.recorder.begin("e2")
    assert bench.recorder.view().state == "refusing"
    bench.clock.free_bytes = 101_000_000
    bench.pass_time(0.1)
    assert bench.recorder.begin("e3") == "e3"


def test_discard_leaves_nothing_and_abort_quarantines(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.recorder.discard("e1", "wrong bin")
    assert (bench.outcome().kind, bench.outcome().reason) == ("discarded", "wrong bin")
    bench.recorder.begin("e2")
    bench.recorder.abort("e2", "collision")
    assert bench.outcome(2).kind == "quarantined"
    assert bench.sink.quarantined == {"e2": "collision"}
    assert bench.sink.discarded == ["e1"]


def test_an_episode_that_begins_before_the_one_before_ended_sends_that_to_quarantine(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    play(bench, episode_id="e2")
    assert bench.outcome().reason == "episode e2 began before this one had ended"
    assert bench.outcome(2).kind == "saved"


def test_an_arm_that_falls_silent_and_one_that_never_ends_are_broken_off(make_bench) -> None:
    bench = make_bench(step_timeout_s=5.0, max_steps=2)
    bench.recorder.begin("e1")
    bench.pass_time(5.1)
    assert bench.outcome().reason == "no step for 5 s and no end"
    bench.recorder.begin("e2")
    for number in range(2):
        bench.frame(number)
        bench.step(number, "e2")
    bench.pass_time(0.1)
    assert bench.outcome(2).reason == "2 steps and no end, allowed 2"


def test_stopping_the_recorder_quarantines_the_running_episode(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.frame(0)
    bench.step(0)
    assert bench.recorder.close("the recorder was stopped")
    assert bench.sink.quarantined == {"e1": "the recorder was stopped"}


def test_begun_by_hand_the_arms_own_count_and_missing_episode_ids_do_not_matter(make_bench) -> None:
    bench = make_bench()
    made_up = bench.recorder.begin(is_by_hand=True)
    assert made_up == "arm1-19700101T001640.000000"
    for number in (7, 8):
        bench.frame(number)
        bench.step(number, "")
    with pytest.raises(RecordingError, match="is running: end or discard it first"):
        bench.recorder.begin(is_by_hand=True)
    bench.recorder.end(label=HELD)
    bench.pass_time(1.1)
    assert (bench.outcome().kind, bench.outcome().steps) == ("saved", 2)


def test_ending_what_does_not_run_is_refused(make_bench) -> None:
    bench = make_bench()
    with pytest.raises(RecordingError, match="no episode is running"):
        bench.recorder.end("e1")
    bench.recorder.begin("e1")
    with pytest.raises(RecordingError, match="episode e2 is not running, e1 is"):
        bench.recorder.end("e2")
    with pytest.raises(RecordingError, match=r"episode id '../e3': expected"):
        bench.recorder.begin("../e3")


def test_steps_of_an_episode_that_never_began_are_shown(make_bench) -> None:
    bench = make_bench()
    bench.step(3, "ghost")
    bench.pass_time(1.1)
    assert bench.recorder.view().health == (
        "steps: step 3 of episode ghost is not recorded: no such episode is running",
    )


def test_what_was_unhealthy_during_an_episode_is_shown_and_goes_with_it(make_bench) -> None:
    bench = make_bench(max_displacement_m=0.05, max_frame_gap_s=0.5, step_timeout_s=100.0)
    bench.pass_time(0.1)
    bench.recorder.begin("e1")
    bench.clock.wall_offset_ns = 2 * 10**9
    bench.pass_time(0.6)
    bench.frame(0)
    bench.step(0, displacement_m=(0.0, -0.06, 0.0))
    bench.recorder.end("e1", HELD, 1)
    assert bench.outcome().kind == "saved"
    assert bench.outcome().health == (
        "missing frames: no frame for 0.6 s, allowed 0.5",
        "clock: the computer's clock jumped by +2.00 s, allowed 0.50",
        "late frames: frame 0.70 s old on arrival, allowed 0.50",
        "action bounds: step 0: dy is -0.0600 m, allowed +-0.0500",
    )
    assert bench.sink.health["e1"] == bench.outcome().health
    assert bench.recorder.view().health == bench.outcome().health
    bench.pass_time(31)
    assert bench.recorder.view().health == ()


def test_a_frozen_camera_sends_an_episode_to_quarantine(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    for number in range(3):
        bench.frame(number, b"the same image")
        bench.step(number, displacement_m=(0.0, 0.0, -0.05))
    bench.recorder.end("e1", HELD, 3)
    assert (bench.outcome().kind, bench.outcome().reason) == ("quarantined", "3 identical frames while the arm moved")
    assert bench.outcome().health == ("frozen camera: 3 identical frames while the arm moved",)


def test_two_frames_with_the_same_timestamp_are_shown_and_the_first_counts(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.frame(0, b"first")
    bench.frame(0, b"second")
    bench.step(0)
    bench.recorder.end("e1", HELD, 1)
    assert bench.outcome().health == ("clock: two frames are stamped 1000000000000 ns",)
    assert bench.sink.committed["e1"].steps[0].frame.data == b"first"


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
    play(bench, steps=6)
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
    play(bench)
    outcome: RecordingOutcome = bench.outcome()
    assert (outcome.kind, outcome.reason, outcome.saved) == ("quarantined", reason, None)
    assert bench.recorder.view().episodes_saved == 0
