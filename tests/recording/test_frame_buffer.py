from __future__ import annotations

from opc_ros.episode import Frame
from opc_ros.recording.frame_buffer import FrameBuffer


def frame(stamp_ns: int, size: int = 10) -> Frame:
    return Frame(stamp_ns=stamp_ns, encoding="jpeg", data=bytes(size))


def test_frames_are_found_by_their_exact_timestamp() -> None:
    buffer = FrameBuffer(max_age_ns=100, max_bytes=1000)
    kept = frame(5)
    assert buffer.add(kept, 0)
    assert buffer.find(5) is kept
    assert buffer.find(6) is None


def test_a_second_frame_with_the_same_timestamp_is_refused() -> None:
    buffer = FrameBuffer(max_age_ns=100, max_bytes=1000)
    first = frame(5)
    buffer.add(first, 0)
    assert not buffer.add(frame(5), 1)
    assert buffer.find(5) is first


def test_memory_stays_within_its_bound_however_many_frames_come() -> None:
    buffer = FrameBuffer(max_age_ns=10**9, max_bytes=100)
    for number in range(1000):
        buffer.add(frame(number), number)
    assert len(buffer) == 10
    assert buffer.find(990) is not None
    assert buffer.explain_absence(989).startswith("had left the buffer")
    assert buffer.explain_absence(1000) == "never came"


def test_frames_that_waited_too_long_are_dropped() -> None:
    buffer = FrameBuffer(max_age_ns=50, max_bytes=1000)
    for number in range(10):
        buffer.add(frame(number), number * 10)
    assert buffer.find(3) is None
    assert buffer.find(4) is not None


def test_a_single_frame_larger_than_the_bound_is_still_kept() -> None:
    buffer = FrameBuffer(max_age_ns=50, max_bytes=5)
    buffer.add(frame(1), 0)
    buffer.add(frame(2), 0)
    assert buffer.find(1) is None
    assert buffer.find(2) is not None
