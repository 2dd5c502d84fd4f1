"""What is missing, late, out of order or frozen is noticed and named, and spoils the episode where it has to."""

from __future__ import annotations

from tests.recording.bench import HELD


def test_an_episode_whose_frame_never_came_is_quarantined_and_says_which(make_bench) -> None:
    bench = make_bench(pairing_timeout_s=1.0)
    bench.recorder.begin("e1")
    bench.act(0)
    bench.step(1)
    bench.act(2)
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
        bench.act(number)
    bench.recorder.end("e1", HELD, 5)
    bench.pass_time(1.1)
    assert bench.outcome().reason == "steps 2 to 3 never came"


def test_a_lost_last_step_is_noticed_by_the_number_of_steps_the_arm_reports(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    bench.act(0)
    bench.recorder.end("e1", HELD, 2)
    bench.pass_time(1.1)
    assert bench.outcome().reason == "the arm says 2 steps, 1 came"


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
        bench.act(number, index=index)
    bench.recorder.end("e1", HELD, 2)
    assert bench.outcome().reason == "step 1: its frame's stamp went back by 0.200 s"


def test_a_step_after_a_terminating_one_and_a_step_sent_twice_spoil_an_episode(make_bench) -> None:
    bench = make_bench()
    bench.recorder.begin("e1")
    for number in (0, 1):
        bench.act(number, terminate=True)
    bench.step(0)
    bench.recorder.end("e1", HELD, 2)
    assert bench.outcome().reason == "step 1 follows a terminating one; step 0 came twice"


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
    bench.act(0, displacement_m=(0.0, -0.06, 0.0))
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
