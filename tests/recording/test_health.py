from __future__ import annotations

from opc_ros.episode import Frame
from opc_ros.grasp import ActionBounds, GraspAction
from opc_ros.recording.health import (
    ClockWatch,
    DiskWatch,
    FrameWatch,
    FrozenWatch,
    HealthFinding,
    HealthLog,
    check_bounds,
)

MS = 1_000_000
STILL = GraspAction()
DOWN = GraspAction(displacement_m=(0.0, 0.0, -0.05))


def watch_frames(**changes: float) -> FrameWatch:
    watch = FrameWatch(**{"min_rate_hz": 5.0, "max_gap_s": 1.0, "max_latency_s": 0.2, **changes})
    watch.restart(0)
    return watch


def see(watch: FrameWatch, arrived_ms: int, *, age_ms: int = 10) -> list[str]:
    return [f.text for f in watch.see((arrived_ms - age_ms) * MS, arrived_ms * MS, arrived_ms * MS)]


def test_a_steady_camera_raises_nothing_and_its_rate_is_measured() -> None:
    watch = watch_frames()
    assert [see(watch, 100 * n) for n in range(1, 31)] == [[]] * 30
    assert watch.rate_hz == 10.0


def test_an_old_frame_is_late_and_one_from_the_future_is_a_matter_of_clocks() -> None:
    watch = watch_frames()
    assert see(watch, 100, age_ms=250) == ["frame 0.25 s old on arrival, allowed 0.20"]
    assert see(watch, 200, age_ms=200) == []
    future = watch.see(600 * MS, 300 * MS, 300 * MS)
    assert future == [HealthFinding("clock", "frame stamped 0.30 s in the future: set the camera's clock")]


def test_silence_is_reported_once_while_it_lasts_and_again_the_next_time() -> None:
    watch = watch_frames()
    see(watch, 100)
    assert watch.check(1100 * MS) == []
    assert [f.text for f in watch.check(1200 * MS)] == ["no frame for 1.1 s, allowed 1.0"]
    assert watch.check(1300 * MS) == []
    see(watch, 1400)
    assert [f.text for f in watch.check(2500 * MS)] == ["no frame for 1.1 s, allowed 1.0"]


def test_a_falling_rate_is_reported_once_and_a_pause_between_episodes_does_not_count() -> None:
    watch = watch_frames()
    told = [text for n in range(1, 11) for text in see(watch, 250 * n)]
    assert told == ["4.0 frames per second, expected 5.0"]
    watch.restart(60_000 * MS)
    assert [see(watch, 60_000 + 100 * n) for n in range(1, 11)] == [[]] * 10


def frame(content: bytes) -> Frame:
    return Frame(stamp_ns=0, encoding="jpeg", data=content)


def test_the_same_image_twice_while_the_arm_moved_is_a_frozen_camera() -> None:
    watch = FrozenWatch(frozen_steps=2)
    assert watch.see(frame(b"a"), DOWN) is None
    assert watch.see(frame(b"a"), DOWN) is None
    assert watch.see(frame(b"a"), DOWN) == HealthFinding(
        "frozen camera", "3 identical frames while the arm moved", spoils=True
    )
    assert watch.see(frame(b"a"), DOWN) is None  # reported once


def test_the_same_image_of_an_arm_that_stands_still_is_no_frozen_camera() -> None:
    watch = FrozenWatch(frozen_steps=2)
    assert [watch.see(frame(b"a"), STILL) for _ in range(10)] == [None] * 10
    watch = FrozenWatch(frozen_steps=2)
    images = [b"a", b"a", b"b", b"b", b"c", b"c"]
    assert [watch.see(frame(image), DOWN) for image in images] == [None] * 6
    watch = FrozenWatch(frozen_steps=0)
    assert [watch.see(frame(b"a"), DOWN) for _ in range(10)] == [None] * 10


def test_a_clock_jump_is_seen_either_way_and_a_slow_drift_is_not() -> None:
    watch = ClockWatch(max_jump_s=0.5)
    assert watch.see(5000 * MS, 0) is None
    assert watch.see(5100 * MS + 400 * MS, 100 * MS) is None
    ahead = watch.see(9000 * MS, 200 * MS)
    assert ahead is not None
    assert ahead.text == "the computer's clock jumped by +3.40 s, allowed 0.50"
    back = watch.see(1100 * MS, 300 * MS)
    assert back is not None
    assert back.text == "the computer's clock jumped by -8.00 s, allowed 0.50"


def test_too_little_room_and_an_unreadable_disk_are_both_findings() -> None:
    assert DiskWatch(lambda: 100, min_free_bytes=100).check() is None
    short = DiskWatch(lambda: 99_000_000, min_free_bytes=100_000_000).check()
    assert short == HealthFinding("disk", "99 MB free, expected 100: make room")

    def fail() -> int:
        raise OSError(5, "Input/output error")

    assert DiskWatch(fail, min_free_bytes=1).check() == HealthFinding("disk", "cannot be read: Input/output error")


def test_an_action_outside_its_bounds_is_named_with_its_step() -> None:
    bounds = ActionBounds(displacement_m=0.05, rotation_rad=1.0)
    assert check_bounds(GraspAction(displacement_m=(0.05, 0.0, 0.0)), bounds, 3) is None
    finding = check_bounds(GraspAction(displacement_m=(0.06, 0.0, 0.0)), bounds, 3)
    assert finding == HealthFinding("action bounds", "step 3: dx is +0.0600 m, allowed +-0.0500")


def test_findings_of_one_kind_become_one_line() -> None:
    log = HealthLog()
    for text in ("first", "second", "third"):
        log.add(HealthFinding("late frames", text))
    log.add(HealthFinding("clock", "jumped"))
    assert log.lines() == ("late frames: first (and 2 more)", "clock: jumped")
