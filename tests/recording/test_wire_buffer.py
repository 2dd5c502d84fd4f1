"""Messages beside the frames: kept with the running episode, at a bounded rate, never in place of a step."""

from __future__ import annotations

import pytest

from opc_ros.episode import WireMessage
from opc_ros.recording.settings import RecorderSettings
from opc_ros.recording.wire_buffer import WireBuffer
from tests.recording.bench import stamp

MILLISECOND = 1_000_000
JOINTS, INFO = "sensor_msgs/msg/JointState", "sensor_msgs/msg/CameraInfo"


def test_the_newest_of_each_type_belongs_to_the_episode_that_begins() -> None:
    buffer = WireBuffer(max_rate_hz=0)
    for number in range(3):
        buffer.add(WireMessage(INFO, number, b"info"), is_recording=False)
        buffer.add(WireMessage(JOINTS, number, b"joints"), is_recording=False)
    assert buffer.take() == []
    buffer.begin()
    assert [(message.type, message.stamp_ns) for message in buffer.take()] == [(INFO, 2), (JOINTS, 2)]
    assert buffer.take() == []


def test_a_fast_driver_is_thinned_by_its_timestamps_and_one_at_the_limit_is_not() -> None:
    kept = {}
    for rate_hz in (1000, 100):
        buffer = WireBuffer(max_rate_hz=100)
        for number in range(rate_hz):
            jitter_ns = 300_000 * (-1) ** number
            stamp_ns = 10**12 + number * 10**9 // rate_hz + (jitter_ns if rate_hz == 100 else 0)
            buffer.add(WireMessage(JOINTS, stamp_ns, b""), is_recording=True)
        kept[rate_hz] = len(buffer.take())
    assert kept[100] == 100
    assert 100 <= kept[1000] <= 112


def test_a_clock_that_went_back_does_not_silence_a_driver() -> None:
    buffer = WireBuffer(max_rate_hz=100)
    buffer.add(WireMessage(JOINTS, 10**12, b""), is_recording=True)
    buffer.add(WireMessage(JOINTS, 10**9, b""), is_recording=True)
    assert len(buffer.take()) == 2


def test_messages_beside_the_steps_go_with_their_episode_and_no_other(make_bench) -> None:
    bench = make_bench()
    bench.recorder.add_wire_message(WireMessage(INFO, stamp(0), b"info"))
    bench.recorder.begin("e1", stamp_ns=stamp(0))
    for index in range(2):
        bench.recorder.add_wire_message(WireMessage(JOINTS, stamp(index), b"joints %d" % index))
        bench.frame(index)
        bench.step(index)
    bench.recorder.add_wire_message(WireMessage(JOINTS, stamp(2), b"joints 2"))
    bench.recorder.end("e1", steps=2)
    assert bench.outcome().kind == "saved"
    assert bench.outcome().start.began_ns == stamp(0)
    bench.recorder.add_wire_message(WireMessage(JOINTS, stamp(3), b"between"))
    assert [message.data for message in bench.sink.wire_messages["e1"]] == [
        b"info",
        b"joints 0",
        b"joints 1",
        b"joints 2",
    ]


@pytest.mark.parametrize(
    ("image_topic", "expected"),
    [
        ("camera/image/compressed", "camera/camera_info"),
        ("/d405/color/image_raw", "/d405/color/camera_info"),
        ("image", "camera_info"),
        ("/image/compressed", "/camera_info"),
    ],
)
def test_camera_info_is_looked_for_beside_the_images(image_topic: str, expected: str) -> None:
    assert RecorderSettings(image_topic=image_topic).find_camera_info_topic() == expected
    assert RecorderSettings(camera_info_topic="/lens").find_camera_info_topic() == "/lens"
