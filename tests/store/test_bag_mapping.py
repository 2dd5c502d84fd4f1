"""The way to a mapping of a recording's topics, and what is wrong with one, is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.config import load_config
from opc_ros.errors import ConfigError, StoreError
from opc_ros.store import Store
from opc_ros.store.bag_import import import_bag
from opc_ros.store.bag_mapping import BagMapping, FieldAt, ToolMapping
from tests.policies.making import make_episodes
from tests.store.bags import TOOL, number, record, three_frames

MAPPING_TEXT = """
robot: arm1
behaviour_policy: teleop
camera: /camera
tool: {topic: /tool, x_m: pose.position.x, y_m: pose.position.y, z_m: pose.position.z, orientation: pose.orientation}
aperture_m: {topic: /joints, field: "position[1]"}
label: {topic: /success, field: data}
object_set: cups
"""


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
