"""How a recorder begins, ends and labels episodes, and what becomes of each."""

from __future__ import annotations

import threading

import pytest

from opc_ros.episode import Label, LabelSource
from opc_ros.errors import RecordingError
from tests.recording.bench import HELD


def test_an_episode_keeps_every_frame_action_and_word_about_it(make_bench) -> None:
    bench = make_bench()
    bench.play()
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
    bench.act(2)
    assert bench.outcome().kind == "saved"
    assert [step.frame.data for step in bench.sink.committed["e1"].steps] == [b"image 0", b"image 1", b"image 2"]


def test_the_next_episode_may_begin_while_the_one_before_waits_for_its_last_step(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.recorder.end("e1", HELD, 1)
    bench.play(steps=2, episode_id="e2", first=5)
    assert bench.outcome().start.id == "e2"
    bench.act(0, "e1")
    assert bench.outcome(2).start.id == "e1"
    assert bench.outcomes[1].kind == "saved"


def test_an_end_without_a_number_of_steps_waits_for_late_ones_unless_the_last_action_terminated(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.act(0)
    bench.recorder.end("e1", HELD)
    bench.act(1)
    assert bench.recorder.view().state == "saving"
    bench.act(2, terminate=True)
    assert bench.outcome().steps == 3


def test_an_unlabelled_episode_is_stored_and_counted_until_a_person_labels_it(make_bench) -> None:
    bench = make_bench()
    bench.play(label=Label())
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
    bench.act(0)
    bench.recorder.end("e1", HELD, 1)
    assert bench.outcome().label == person


def test_the_gripper_rule_labels_only_where_the_end_event_does_not(make_bench) -> None:
    bench = make_bench(has_gripper_rule=True)
    bench.play(label=Label())
    assert bench.outcome().label.source is LabelSource.GRIPPER_WIDTH
    assert bench.outcome().label.is_success is False  # it was never told to close
    bench.play(episode_id="e2", label=HELD, first=10)
    assert bench.outcome(2).label == HELD


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
    bench.play(episode_id="e2")
    assert bench.outcome().reason == "episode e2 began before this one had ended"
    assert bench.outcome(2).kind == "saved"


def test_an_arm_that_falls_silent_and_one_that_never_ends_are_broken_off(make_bench) -> None:
    bench = make_bench(step_timeout_s=5.0, max_steps=2)
    bench.recorder.begin("e1")
    bench.pass_time(5.1)
    assert bench.outcome().reason == "no step for 5 s and no end"
    bench.recorder.begin("e2")
    for number in range(2):
        bench.act(number, "e2")
    bench.pass_time(0.1)
    assert bench.outcome(2).reason == "2 steps and no end, allowed 2"


def test_stopping_the_recorder_quarantines_the_running_episode(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.act(0)
    assert bench.recorder.close("the recorder was stopped")
    assert bench.sink.quarantined == {"e1": "the recorder was stopped"}


def test_begun_by_hand_the_arms_own_count_and_missing_episode_ids_do_not_matter(make_bench) -> None:
    bench = make_bench()
    made_up = bench.recorder.begin(is_by_hand=True)
    assert made_up == "arm1-19700101T001640.000000"
    for number in (7, 8):
        bench.act(number, "")
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
