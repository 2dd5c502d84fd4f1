"""Recordings of labs, made with a writer we did not write, become episodes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from opc_ros.cli.main import main
from opc_ros.config import load_config
from opc_ros.episode import Frame, Label
from opc_ros.errors import ConfigError, StoreError
from opc_ros.grasp import GraspAction
from opc_ros.store import Store
from opc_ros.store.bag_import import Imported, import_bag
from opc_ros.store.bag_mapping import ActionMapping, BagMapping, FieldAt, LabelMapping, ToolMapping
from opc_ros.store.bag_timeline import combine_actions
from tests.policies.making import make_episodes

TYPES = get_typestore(Stores.ROS2_JAZZY)
TOOL = ToolMapping(
    topic="/tool", x_m="pose.position.x", y_m="pose.position.y", z_m="pose.position.z", orientation="pose.orientation"
)
MAPPING = BagMapping(
    robot="arm1",
    behaviour_policy="teleop",
    camera="/camera",
    tool=TOOL,
    aperture_m=FieldAt(topic="/joints", field="position[1]"),
    label=LabelMapping(topic="/success", field="data"),
    object_set="cups",
)
SECOND = 1_000_000_000
MAPPING_TEXT = """
robot: arm1
behaviour_policy: teleop
camera: /camera
tool: {topic: /tool, x_m: pose.position.x, y_m: pose.position.y, z_m: pose.position.z, orientation: pose.orientation}
aperture_m: {topic: /joints, field: "position[1]"}
label: {topic: /success, field: data}
object_set: cups
"""


def image(shade: int) -> Frame:
    return Frame.from_image(np.full((24, 32, 3), shade, dtype=np.uint8), 0)


def header() -> object:
    return TYPES.types["std_msgs/msg/Header"](
        stamp=TYPES.types["builtin_interfaces/msg/Time"](sec=0, nanosec=0), frame_id=""
    )


def compressed(shade: int) -> object:
    data = np.frombuffer(image(shade).data, dtype=np.uint8)
    return TYPES.types["sensor_msgs/msg/CompressedImage"](header=header(), format="rgb8; jpeg compressed", data=data)


def padded_image(shade: int) -> object:
    rows = np.zeros((24, 100), dtype=np.uint8)
    rows[:, :96] = shade
    return TYPES.types["sensor_msgs/msg/Image"](
        header=header(), height=24, width=32, encoding="bgr8", is_bigendian=0, step=100, data=rows.ravel()
    )


def pose(x: float, yaw: float) -> object:
    point = TYPES.types["geometry_msgs/msg/Point"](x=x, y=0.1, z=0.3)
    turn = TYPES.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    inner = TYPES.types["geometry_msgs/msg/Pose"](position=point, orientation=turn)
    return TYPES.types["geometry_msgs/msg/PoseStamped"](header=header(), pose=inner)


def joints(aperture_m: float) -> object:
    numbers = np.array([0.0, aperture_m])
    empty = np.array([])
    return TYPES.types["sensor_msgs/msg/JointState"](
        header=header(), name=["a", "gripper"], position=numbers, velocity=empty, effort=empty
    )


def number(value: int) -> object:
    return TYPES.types["std_msgs/msg/Int32"](data=value)


def vector(x: float, y: float, z: float) -> object:
    return TYPES.types["geometry_msgs/msg/Vector3"](x=x, y=y, z=z)


def twist(x: float) -> object:
    zero = vector(0, 0, 0)
    inner = TYPES.types["geometry_msgs/msg/Twist"](linear=vector(x, 0, 0), angular=zero)
    return TYPES.types["geometry_msgs/msg/TwistStamped"](header=header(), twist=inner)


def stamped(message: Any, seconds: float) -> Any:
    return dataclasses.replace(
        message,
        header=TYPES.types["std_msgs/msg/Header"](
            stamp=TYPES.types["builtin_interfaces/msg/Time"](sec=int(seconds), nanosec=round(seconds % 1 * SECOND)),
            frame_id="",
        ),
    )


def record(folder: Path, messages: list[tuple[float, str, object]], plugin: StoragePlugin = StoragePlugin.MCAP) -> Path:
    """(seconds, topic, message) into a bag."""
    with Writer(folder, version=9, storage_plugin=plugin) as writer:
        links = {}
        for seconds, topic, message in messages:
            kind = message.__msgtype__  # type: ignore[attr-defined]
            links.setdefault(topic, writer.add_connection(topic, kind, typestore=TYPES) if topic not in links else None)
            writer.write(links[topic], round(seconds * SECOND), TYPES.serialize_cdr(message, kind))
    return folder


def three_frames(make_image: object = compressed) -> list[tuple[float, str, object]]:
    """The tool moves 20 mm along x and turns 0.1 rad from frame to frame; the gripper closes before the last."""
    messages: list[tuple[float, str, object]] = []
    for index, aperture in enumerate((0.08, 0.08, 0.02)):
        at = 1.0 + index
        messages += [
            (at, "/tool", pose(0.5 + 0.02 * index, 0.1 * index)),
            (at + 0.01, "/joints", joints(aperture)),
            (at + 0.02, "/camera", make_image(40 * index + 10)),  # type: ignore[operator]
        ]
    return [*messages, (4.0, "/success", number(1))]


@pytest.mark.parametrize("plugin", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_recording_without_actions_becomes_an_episode_of_motions(
    store: Store, tmp_path: Path, plugin: StoragePlugin
) -> None:
    done = import_bag(store, record(tmp_path / "run 7", three_frames(), plugin), MAPPING)
    assert (done.episode_ids, done.skipped) == (("run_7",), ())
    episode = store.read("run_7")
    assert (episode.robot, episode.behaviour_policy, episode.object_set) == ("arm1", "teleop", "cups")
    assert (episode.label.is_success, episode.label.source.value) == (True, "import")
    assert [step.frame.data for step in episode.steps] == [image(shade).data for shade in (10, 50, 90)]
    assert [step.frame.stamp_ns for step in episode.steps] == [1_020_000_000, 2_020_000_000, 3_020_000_000]
    first, second, last = (step.action for step in episode.steps)
    assert first.displacement_m == pytest.approx((0.02, 0.0, 0.0))
    assert first.rotation_rad == pytest.approx(0.1)
    assert not first.close_gripper
    assert second.close_gripper
    assert last.terminate
    assert last.displacement_m == (0.0, 0.0, 0.0)
    assert [step.tool.yaw_rad for step in episode.steps] == pytest.approx([0.0, 0.1, 0.2])
    assert [step.tool.aperture_m for step in episode.steps] == [0.08, 0.08, 0.02]
    assert store.find("run_7").health == ("imported from run 7",)


def test_a_single_mcap_file_and_padded_raw_images_are_taken(store: Store, tmp_path: Path) -> None:
    bag = record(tmp_path / "raw", three_frames(padded_image))
    (file,) = bag.glob("*.mcap")
    done = import_bag(store, file, MAPPING)
    frame = store.read(done.episode_ids[0]).steps[1].frame
    assert (frame.encoding, frame.width, frame.height) == ("bgr8", 32, 24)
    assert set(frame.data) == {50}
    assert len(frame.data) == 32 * 24 * 3


def test_steps_are_taken_as_often_as_asked(store: Store, tmp_path: Path) -> None:
    mapping = BagMapping(robot="arm1", behaviour_policy="teleop", camera="/camera", tool=TOOL, step_s=1.5)
    import_bag(store, record(tmp_path / "slow", three_frames()), mapping)
    episode = store.read("slow")
    assert [step.frame.stamp_ns for step in episode.steps] == [1_020_000_000, 3_020_000_000]
    assert episode.label == Label()


ACTIONS_AND_EPISODES = """
robot: arm1
behaviour_policy: teleop
camera: /camera
tool: {topic: /tool, x_m: pose.position.x, y_m: pose.position.y, z_m: pose.position.z, orientation: pose.orientation}
action: {topic: /action, dx_m: x, dy_m: y, dz_m: z}
episodes: {topic: /phase, field: data, begin: 1, end: 2}
label: {topic: /success, field: data, success: 3}
"""


def test_actions_and_episodes_come_from_their_topics(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(ACTIONS_AND_EPISODES)
    messages: list[tuple[float, str, object]] = [(0.5, "/camera", compressed(1)), (0.6, "/action", vector(9, 9, 9))]
    for at, outcome in ((1.0, 3), (10.0, 4)):
        messages += [
            (at, "/phase", number(1)),
            (at + 0.1, "/tool", pose(0.5, 0.0)),
            (at + 0.2, "/camera", compressed(20)),
            (at + 0.3, "/camera", compressed(30)),
            (at + 0.4, "/action", vector(0.01, 0.02, -0.03)),
            (at + 0.5, "/phase", number(2)),
            (at + 0.6, "/camera", compressed(99)),
            (at + 0.7, "/success", number(outcome)),
        ]
    messages += [(20.0, "/phase", number(1)), (20.1, "/camera", compressed(5))]
    done = import_bag(store, record(tmp_path / "session", messages), load_config(path, BagMapping))
    assert done.episode_ids == ("session-0000", "session-0001")
    assert done.skipped == ("session-0002: begins but does not end",)
    for episode_id, is_success in (("session-0000", True), ("session-0001", False)):
        episode = store.read(episode_id)
        (step,) = episode.steps
        assert step.frame.data == image(30).data
        assert step.action.displacement_m == (0.01, 0.02, -0.03)
        assert episode.label.is_success is is_success


WITH_ACTIONS = BagMapping(
    robot="arm1",
    behaviour_policy="teleop",
    camera="/camera",
    tool=TOOL,
    action=ActionMapping(topic="/action", dx_m="x", dy_m="y", dz_m="z"),
)


def test_actions_faster_than_the_camera_are_joined_to_the_frame_before_them(store: Store, tmp_path: Path) -> None:
    """Two frames a second apart, an action every quarter: 4 and 3 of 1 mm each, and one before the first frame."""
    messages: list[tuple[float, str, object]] = [(1.0, "/action", vector(9, 9, 9)), (1.05, "/tool", pose(0.5, 0.0))]
    messages += [(1.1, "/camera", compressed(10)), (2.0, "/tool", pose(0.6, 0.0)), (2.1, "/camera", compressed(20))]
    messages += [(1.2 + 0.25 * index, "/action", vector(0.001, 0.0, -0.001)) for index in range(7)]
    mapping = dataclasses.replace(WITH_ACTIONS, frame_age_s=1.0)
    done = import_bag(store, record(tmp_path / "fast", sorted(messages, key=lambda item: item[0])), mapping)
    assert done == Imported(tmp_path / "fast", ("fast",), ())
    first, second = store.read("fast").steps
    assert first.action.displacement_m == pytest.approx((0.004, 0.0, -0.004))
    assert second.action.displacement_m == pytest.approx((0.003, 0.0, -0.003))
    assert (first.frame.data, second.frame.data) == (image(10).data, image(20).data)
    assert store.find("fast").health[1:] == (
        "1 actions before the first frame left out",
        "up to 4 actions between two frames joined into one",
    )


def test_an_action_long_after_the_newest_frame_is_refused(store: Store, tmp_path: Path) -> None:
    messages = [(1.0, "/tool", pose(0.5, 0.0)), (1.1, "/camera", compressed(1)), (1.7, "/action", vector(0, 0, 0))]
    done = import_bag(store, record(tmp_path / "late", messages), WITH_ACTIONS)
    assert done.skipped == ("late: action at 1700000000 ns has no frame within 0.5 s before it",)


def test_a_tool_pose_just_after_its_frame_counts_and_the_nearest_is_taken(store: Store, tmp_path: Path) -> None:
    messages = [
        (1.0, "/camera", compressed(1)),
        (1.01, "/tool", pose(0.5, 0.0)),
        (1.02, "/action", vector(0.01, 0, 0)),
        (1.6, "/tool", pose(0.7, 0.0)),
        (1.9, "/camera", compressed(2)),
        (1.95, "/tool", pose(0.8, 0.0)),
        (2.0, "/action", vector(0.02, 0, 0)),
    ]
    import_bag(store, record(tmp_path / "after", messages), WITH_ACTIONS)
    assert [step.tool.x_m for step in store.read("after").steps] == [0.5, 0.8]


def test_matching_by_timestamp_puts_late_messages_where_they_belong(store: Store, tmp_path: Path) -> None:
    """The pose of 1.0 s and the image of 1.0 s arrive long after the action that followed them."""
    messages = [
        (2.0, "/tool", stamped(pose(0.5, 0.0), 1.0)),
        (2.1, "/action", stamped(twist(0.01), 1.1)),
        (5.0, "/camera", stamped(compressed(7), 1.0)),
    ]
    mapping = dataclasses.replace(
        WITH_ACTIONS,
        clock="stamp",
        action=ActionMapping(topic="/action", dx_m="twist.linear.x", dy_m="twist.linear.y", dz_m="twist.linear.z"),
    )
    import_bag(store, record(tmp_path / "late", messages), mapping)
    (step,) = store.read("late").steps
    assert (step.frame.stamp_ns, step.action.displacement_m) == (SECOND, (0.01, 0.0, 0.0))


def test_the_last_word_about_the_gripper_counts_when_actions_are_joined() -> None:
    joined = combine_actions(
        [
            GraspAction(rotation_rad=0.2, close_gripper=True),
            GraspAction(rotation_rad=0.3),
            GraspAction(open_gripper=True, terminate=True),
        ]
    )
    assert joined == GraspAction(rotation_rad=0.5, open_gripper=True, terminate=True)


def test_inspecting_lists_rates_and_writes_a_mapping_that_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag, mapping, store = record(tmp_path / "run", three_frames()), tmp_path / "mapping.yaml", tmp_path / "store"
    assert main(["store", "import", str(bag), "--inspect", "--mapping", str(mapping)]) == 0
    said = capsys.readouterr().out
    assert "/camera   sensor_msgs/msg/CompressedImage" in said
    assert "1.0 Hz" in said
    assert "[1] gripper" in said
    assert load_config(mapping, BagMapping) == BagMapping(
        robot="arm1",
        behaviour_policy="unknown",
        camera="/camera",
        tool=TOOL,
        aperture_m=FieldAt(topic="/joints", field="position[1]"),
    )
    assert main(["store", "import", str(bag), "--mapping", str(mapping), "--store", str(store)]) == 0
    assert main(["store", "import", str(bag), "--inspect", "--mapping", str(mapping)]) == 1
    assert "exists, expected a new file" in capsys.readouterr().err


def test_a_recording_without_camera_or_pose_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = record(tmp_path / "run", [(1.0, "/phase", number(1))])
    assert main(["store", "import", str(bag), "--inspect", "--mapping", str(tmp_path / "mapping.yaml")]) == 1
    said = capsys.readouterr().err
    assert "no camera: expected a topic of sensor_msgs/msg/CompressedImage" in said
    assert "no tool pose: expected a topic of geometry_msgs/msg/PoseStamped" in said
    assert not (tmp_path / "mapping.yaml").exists()


def test_an_episode_of_a_store_is_recognised_and_the_way_to_copy_it_named(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (episode,) = make_episodes(1)
    committed = store.append(episode)
    assert main(["store", "import", str(store.file_of(committed.id)), "--inspect"]) == 1
    assert "it is an episode of an opc_ros store: `opc store sync STORE TARGET`" in capsys.readouterr().err


def test_without_a_mapping_the_way_to_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = record(tmp_path / "run", three_frames())
    assert main(["store", "import", str(bag), "--store", str(tmp_path / "store")]) == 1
    assert f"`opc store import {bag} --inspect --mapping FILE` writes one" in capsys.readouterr().err


def test_a_trial_writes_nothing(tmp_path: Path) -> None:
    done = import_bag(None, record(tmp_path / "run", three_frames()), MAPPING)
    assert done.episode_ids == ("run",)


def test_a_second_import_is_skipped_with_its_reason(store: Store, tmp_path: Path) -> None:
    bag = record(tmp_path / "run", three_frames())
    import_bag(store, bag, MAPPING)
    again = import_bag(store, bag, MAPPING)
    assert again.episode_ids == ()
    assert "exists" in again.skipped[0]


def test_stale_tool_measurements_are_refused(store: Store, tmp_path: Path) -> None:
    messages = [item for item in three_frames() if not (item[1] == "/tool" and item[0] > 1.0)]
    done = import_bag(store, record(tmp_path / "stale", messages), MAPPING)
    assert done.skipped == ("stale: frame at 2020000000 ns has no tool measurement within 0.5 s",)


def test_what_a_mapping_gets_wrong_is_named(store: Store, tmp_path: Path) -> None:
    bag = record(tmp_path / "run", three_frames())
    with pytest.raises(StoreError, match="has no topic /nowhere, expected by the mapping; it has /camera, /joints"):
        import_bag(store, bag, BagMapping(robot="a", behaviour_policy="b", camera="/nowhere", tool=TOOL))
    wrong = ToolMapping(topic="/tool", x_m="pose.place.x", y_m="pose.position.y", z_m="pose.position.z", yaw_rad="x")
    with pytest.raises(StoreError, match=r"field 'pose\.place\.x': geometry_msgs/msg/PoseStamped has no 'place'"):
        import_bag(store, bag, BagMapping(robot="a", behaviour_policy="b", camera="/camera", tool=wrong))
    path = tmp_path / "mapping.yaml"
    path.write_text(MAPPING_TEXT.replace("orientation: pose.orientation", "yaw_deg: x"))
    with pytest.raises(ConfigError, match="unknown key 'yaw_deg'"):
        load_config(path, BagMapping)


def test_a_camera_that_is_no_image_topic_is_named_with_its_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record(tmp_path / "run", three_frames())
    (tmp_path / "mapping.yaml").write_text(MAPPING_TEXT.replace("camera: /camera", "camera: /tool"))
    words = ["store", "import", str(recording), "--mapping", str(tmp_path / "mapping.yaml"), "--trial", "--json"]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "camera /tool is geometry_msgs/msg/PoseStamped, expected sensor_msgs/msg/CompressedImage or" in said
    assert said.count("\n") == 1


def test_files_that_are_no_recordings_are_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "noise.mcap"
    path.write_bytes(b"\x89MCAP0\r\n" + bytes(range(256)))
    with pytest.raises(StoreError, match=r"noise\.mcap: cannot be read"):
        import_bag(store, path, MAPPING)
    with pytest.raises(StoreError, match="no such recording"):
        import_bag(store, tmp_path / "absent", MAPPING)
