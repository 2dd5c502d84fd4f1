"""Recordings of labs become episodes, or it is said why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rosbags.rosbag2 import StoragePlugin

from opc_ros.config import load_config
from opc_ros.episode import Label
from opc_ros.errors import StoreError
from opc_ros.store import Store
from opc_ros.store.bag_import import import_bag
from opc_ros.store.bag_mapping import BagMapping
from tests.store.bags import MAPPING, TOOL, compressed, image, number, padded_image, pose, record, three_frames, vector


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


def test_files_that_are_no_recordings_are_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "noise.mcap"
    path.write_bytes(b"\x89MCAP0\r\n" + bytes(range(256)))
    with pytest.raises(StoreError, match=r"noise\.mcap: cannot be read"):
        import_bag(store, path, MAPPING)
    with pytest.raises(StoreError, match="no such recording"):
        import_bag(store, tmp_path / "absent", MAPPING)
