"""Readers and serializers we did not write agree with our files and messages."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from opc_ros.episode import EpisodeHeader, WireMessage
from opc_ros.errors import EpisodeError
from opc_ros.store import Store, schemas
from opc_ros.store.grasp_steps import step_layout
from opc_ros.store.messages import decode_compressed_image, decode_event, decode_image, encode_frame
from tests.store.grasps import FAILURE, make_episode
from tests.store.wire import WireMessages

REPOSITORY = Path(__file__).resolve().parents[2]
INTERFACES = REPOSITORY / "ros2_ws" / "src" / "opc_interfaces" / "msg"


def stamp_ns(stamp: object) -> int:
    return stamp.sec * 1_000_000_000 + stamp.nanosec  # type: ignore[attr-defined]


@pytest.fixture
def path(store: Store) -> Path:
    store.append(make_episode(label=FAILURE))
    return store.path / "episodes" / "left" / "1970-01-01" / "e1.mcap"


@pytest.fixture
def raw_path(store: Store) -> Path:
    store.append(make_episode("raw", encoding="rgb8"))
    return store.path / "episodes" / "left" / "1970-01-01" / "raw.mcap"


def check_messages(found: list[tuple[str, object]]) -> None:
    """(topic, message) in file order, compared with the episode they were written from."""
    episode = make_episode(label=FAILURE)
    assert [topic for topic, _ in found] == [
        "/left/episode/event",
        *["/left/camera/image/compressed", "/left/grasp/step"] * 3,
        "/left/episode/event",
        "/left/episode/label",
    ]
    messages = [message for _, message in found]
    begin, end, label = messages[0], messages[-2], messages[-1]
    assert (begin.kind, begin.robot, begin.episode_id) == (0, "left", "e1")  # type: ignore[attr-defined]
    assert (begin.behaviour_policy, begin.object_set) == ("scripted", "cups")  # type: ignore[attr-defined]
    assert (end.kind, end.label, end.label_source) == (1, 1, 2)  # type: ignore[attr-defined]
    assert (label.episode_id, label.value, label.source) == ("e1", 1, 2)  # type: ignore[attr-defined]
    assert (label.labeller, label.revision) == ("width rule", 0)  # type: ignore[attr-defined]
    for index, step in enumerate(episode.steps):
        image, message = messages[1 + 2 * index], messages[2 + 2 * index]
        assert image.format == "jpeg"  # type: ignore[attr-defined]
        assert bytes(image.data) == step.frame.data  # type: ignore[attr-defined]
        assert stamp_ns(image.header.stamp) == step.frame.stamp_ns  # type: ignore[attr-defined]
        check_step(message, index)


def check_step(message: object, index: int) -> None:
    step = make_episode().steps[index]
    assert (message.robot, message.episode_id, message.index) == ("left", "e1", index)  # type: ignore[attr-defined]
    assert stamp_ns(message.header.stamp) == step.frame.stamp_ns  # type: ignore[attr-defined]
    tool = message.tool  # type: ignore[attr-defined]
    assert (tool.position_m.x, tool.position_m.y, tool.position_m.z) == (step.tool.x_m, step.tool.y_m, step.tool.z_m)
    assert (tool.yaw_rad, tool.aperture_m) == (step.tool.yaw_rad, step.tool.aperture_m)
    assert message.is_clamped == (index == 1)  # type: ignore[attr-defined]
    sent = step.sent if index == 1 else step.action
    for found, expected in ((message.action, step.action), (message.sent, sent)):  # type: ignore[attr-defined]
        moved = found.displacement_m
        assert (moved.x, moved.y, moved.z) == expected.displacement_m  # type: ignore[union-attr]
        assert found.rotation_sin == math.sin(expected.rotation_rad)  # type: ignore[union-attr]
        assert found.rotation_cos == math.cos(expected.rotation_rad)  # type: ignore[union-attr]
        assert (found.open_gripper, found.close_gripper, found.terminate) == (False, index == 2, index == 2)
        assert stamp_ns(found.observation_stamp) == step.frame.stamp_ns


def read_with_mcap_ros2(path: Path) -> list[tuple[str, object]]:
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        return [
            (item.channel.topic, item.decoded_message) for item in reader.iter_decoded_messages(log_time_order=False)
        ]


def test_mcap_ros2_gets_every_message(path: Path) -> None:
    check_messages(read_with_mcap_ros2(path))


def test_rosbags_gets_every_message(path: Path) -> None:
    from rosbags.highlevel import AnyReader

    with AnyReader([path]) as reader:
        found = [(link.topic, reader.deserialize(data, link.msgtype)) for link, _, data in reader.messages()]
    check_messages(found)


def test_both_readers_get_raw_images(raw_path: Path) -> None:
    from rosbags.highlevel import AnyReader

    expected = [step.frame.data for step in make_episode("raw", encoding="rgb8").steps]
    topic = "/left/camera/image"
    seen = [message for name, message in read_with_mcap_ros2(raw_path) if name == topic]
    with AnyReader([raw_path]) as reader:
        links = [link for link in reader.connections if link.topic == topic]
        seen_too = [reader.deserialize(data, link.msgtype) for link, _, data in reader.messages(links)]
    for images in (seen, seen_too):
        assert [bytes(image.data) for image in images] == expected
        assert {(image.width, image.height, image.step, image.encoding) for image in images} == {(64, 64, 192, "rgb8")}


def test_both_readers_get_what_came_beside_the_steps_under_the_names_of_the_wire(store: Store) -> None:
    from rosbags.highlevel import AnyReader

    episode, wire = make_episode("wired"), WireMessages()
    header = EpisodeHeader("wired", "left", "scripted", episode.started_ns)
    writer = store.begin(
        header, {schemas.CAMERA_INFO: "/realsense/camera_info", schemas.JOINT_STATE: "/lbr/joint_states"}
    )
    writer.add_wire_message(wire.camera_info(5))  # from before the episode
    for step in episode.steps:
        writer.add_wire_message(wire.joint_state(step.frame.stamp_ns + 7))
        writer.add_step(step)
    writer.commit(episode.label)
    path = store.path / "episodes" / "left" / "1970-01-01" / "wired.mcap"
    decoded = read_with_mcap_ros2(path)
    with AnyReader([path]) as reader:
        links = list(reader.messages())
        decoded_too = [(link.topic, reader.deserialize(data, link.msgtype)) for link, _, data in links]
    for found in (decoded, decoded_too):
        info = [message for topic, message in found if topic == "/realsense/camera_info"]
        joints = [message for topic, message in found if topic == "/lbr/joint_states"]
        assert [(one.width, list(one.k)[:3], one.header.frame_id) for one in info] == [(64, [50.0, 0.0, 32.0], "lens")]
        assert [stamp_ns(one.header.stamp) for one in joints] == [s.frame.stamp_ns + 7 for s in episode.steps]
        assert [(list(one.name), list(one.position)) for one in joints] == [(["A1", "A2"], [0.25, -1.5])] * 3
    assert min(time for _, time, _ in links) == episode.started_ns
    read = store.read("wired").steps
    assert [step.frame.data for step in read] == [step.frame.data for step in episode.steps]


def test_what_no_episode_keeps_beside_its_steps_is_refused(store: Store) -> None:
    writer = store.begin(EpisodeHeader("wired", "left", "scripted", 0))
    with pytest.raises(EpisodeError, match="std_msgs/msg/String: expected one of sensor_msgs/msg/CameraInfo"):
        writer.add_wire_message(WireMessage("std_msgs/msg/String", 1, b"\0\1\0\0"))
    with pytest.raises(EpisodeError, match="begins with 00000000, expected little-endian CDR"):
        writer.add_wire_message(WireMessage(schemas.JOINT_STATE, 1, b"\0" * 40))


def test_a_seeking_reader_finds_indexes_and_profile(path: Path) -> None:
    from mcap.reader import make_reader

    with path.open("rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert reader.get_header().profile == "ros2"
    assert summary is not None
    assert summary.statistics is not None
    assert summary.statistics.message_count == 9
    assert summary.chunk_indexes
    assert {schema.encoding for schema in summary.schemas.values()} == {"ros2msg"}
    assert {channel.message_encoding for channel in summary.channels.values()} == {"cdr"}


@pytest.mark.ros
def test_ros_deserializes_our_messages_and_we_those_of_ros() -> None:
    serialization = pytest.importorskip("rclpy.serialization")
    from opc_interfaces.msg import EpisodeEvent, GraspStep
    from sensor_msgs.msg import CompressedImage, Image

    layout = step_layout("left", "e1")
    for index, step in enumerate(make_episode().steps):
        message = serialization.deserialize_message(layout.encode(step, index), GraspStep)
        check_step(message, index)
        back = layout.decode(serialization.serialize_message(message))
        assert (back.tool, back.action, back.index) == (step.tool, step.action, index)
        image = serialization.deserialize_message(b"".join(encode_frame(step.frame)), CompressedImage)
        assert bytes(image.data) == step.frame.data
        assert decode_compressed_image(serialization.serialize_message(image)).data == step.frame.data
    raw = make_episode(encoding="rgb8").steps[0].frame
    image = serialization.deserialize_message(b"".join(encode_frame(raw)), Image)
    assert decode_image(serialization.serialize_message(image)) == raw
    event = EpisodeEvent(robot="left", episode_id="e1", kind=3, reason="lost")
    assert decode_event(serialization.serialize_message(event)).reason == "lost"


@pytest.mark.parametrize("name", ["EpisodeEvent", "GraspAction", "GraspStep", "Label", "ToolState"])
def test_carried_definitions_equal_those_of_the_workspace(name: str) -> None:
    assert schemas.definition(f"opc_interfaces/msg/{name}") == (INTERFACES / f"{name}.msg").read_text()


@pytest.mark.ros
@pytest.mark.parametrize(
    "name",
    [
        "builtin_interfaces/msg/Time",
        "geometry_msgs/msg/Point",
        "geometry_msgs/msg/Quaternion",
        "geometry_msgs/msg/Transform",
        "geometry_msgs/msg/TransformStamped",
        "geometry_msgs/msg/Vector3",
        "sensor_msgs/msg/CameraInfo",
        "sensor_msgs/msg/CompressedImage",
        "sensor_msgs/msg/Image",
        "sensor_msgs/msg/JointState",
        "sensor_msgs/msg/RegionOfInterest",
        "std_msgs/msg/Header",
        "tf2_msgs/msg/TFMessage",
    ],
)
def test_carried_definitions_equal_those_of_ros(name: str) -> None:
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    found = [path for path in (Path(prefix, "share", f"{name}.msg") for prefix in prefixes) if path.exists()]
    if not found:
        pytest.skip(f"{name} is not installed below {' or '.join(prefixes)}")
    assert schemas.definition(name) == found[0].read_text()
