"""LeRobot datasets come back as they were exported, and others are imported through a mapping."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opc_ros.cli.main import main
from opc_ros.episode import Frame, Label
from opc_ros.errors import StoreError
from opc_ros.store import Store, open_store
from opc_ros.store.bag_mapping import ActionFields, ToolFields
from opc_ros.store.lerobot_export import export_lerobot
from opc_ros.store.lerobot_import import LerobotMapping, import_lerobot
from tests.store.grasps import FAILURE, make_episode
from tests.store.points import make_point

MAPPING = LerobotMapping(
    robot="arm1",
    behaviour_policy="teleop",
    tool=ToolFields(
        x_m="observation.state[0]",
        y_m="observation.state[1]",
        z_m="observation.state[2]",
        yaw_rad="observation.state[3]",
    ),
    action=ActionFields(dx_m="action[0]", dy_m="action[1]", dz_m="action[2]", close_gripper="action[3]"),
    label="next.success",
    recorded="2026-11-01T10:00",
)
BEGAN_NS = 1_793_527_200_000_000_000  # 2026-11-01 10:00 UTC


@pytest.mark.parametrize("encoding", ["jpeg", "rgb8"])
def test_what_was_exported_comes_back_equal(store: Store, tmp_path: Path, encoding: str) -> None:
    episodes = [
        dataclasses.replace(make_episode("a", encoding=encoding), seed=7),
        make_episode("b", robot="right", label=FAILURE, encoding=encoding, object_set=""),
    ]
    for episode in episodes:
        store.append(episode)
    done = export_lerobot(store, store.take_snapshot(), tmp_path / "dataset")
    back = open_store(tmp_path / "back", create=True)
    assert import_lerobot(back, done.folder).episode_ids == ("a", "b")
    for episode in episodes:
        assert back.read(episode.id) == store.read(episode.id)


def test_mono_images_come_back_in_their_encoding(store: Store, tmp_path: Path) -> None:
    episode = make_episode("a")
    grey = [
        dataclasses.replace(step, frame=Frame(step.frame.stamp_ns, "mono8", bytes(range(48)), 8, 6))
        for step in episode.steps
    ]
    store.append(dataclasses.replace(episode, steps=tuple(grey)))
    done = export_lerobot(store, store.take_snapshot(), tmp_path / "dataset")
    back = open_store(tmp_path / "back", create=True)
    import_lerobot(back, done.folder)
    assert back.read("a") == store.read("a")


def test_points_of_pong_come_back_equal(store: Store, tmp_path: Path) -> None:
    point = make_point("p1")
    store.append(point)
    done = export_lerobot(store, store.take_snapshot(), tmp_path / "dataset")
    back = open_store(tmp_path / "back", create=True)
    import_lerobot(back, done.folder)
    assert back.read(point.id) == store.read(point.id)


@pytest.mark.parametrize("message", ["AAEA", "no base64!"])
def test_a_damaged_record_is_named(store: Store, tmp_path: Path, message: str) -> None:
    store.append(make_episode("a"))
    folder = export_lerobot(store, store.take_snapshot(), tmp_path / "dataset").folder
    path = folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    (row,) = pq.read_table(path).to_pylist()
    record = json.loads(row["opc/record"])
    record["steps"][1]["message"] = message
    pq.write_table(pa.Table.from_pylist([row | {"opc/record": json.dumps(record)}]), path)
    back = open_store(tmp_path / "back", create=True)
    assert "episode a: its record is damaged" in import_lerobot(back, folder).skipped[0]


def write_v2(folder: Path, *, has_video: bool) -> Path:
    """One episode of three rows, laid out by hand as documented for version 2.1."""
    images = [np.full((48, 64, 3), shade, dtype=np.uint8) for shade in (40, 120, 200)]
    for part in ("meta", "data/chunk-000", "videos/chunk-000/observation.images.top"):
        (folder / part).mkdir(parents=True)
    columns = {
        "observation.state": pa.array([[0.5, 0.1, 0.3, 0.2]] * 3, pa.list_(pa.float32())),
        "action": pa.array(
            [[0.01, 0.0, 0.0, 0.0], [0.0, 0.0, -0.02, 0.0], [0.0, 0.0, 0.0, 1.0]], pa.list_(pa.float32())
        ),
        "next.success": [False, False, True],
        "timestamp": pa.array([0.0, 0.5, 1.0], pa.float32()),
        "episode_index": [0, 0, 0],
    }
    if has_video:
        path = folder / "videos/chunk-000/observation.images.top/episode_000000.mp4"
        video = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 2, (64, 48))
        for image in images:
            video.write(image)
        video.release()
    else:
        encoded = [cv2.imencode(".png", image)[1].tobytes() for image in images]
        columns["observation.images.top"] = [{"bytes": image, "path": None} for image in encoded]
    pq.write_table(pa.table(columns), folder / "data/chunk-000/episode_000000.parquet")
    features = {name: {"dtype": "float32"} for name in columns}
    features["observation.images.top"] = {"dtype": "video" if has_video else "image"}
    info = {"codebase_version": "v2.1", "fps": 2, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "meta" / "episodes.jsonl").write_text('{"episode_index": 0, "tasks": ["grasp"], "length": 3}\n')
    return folder


@pytest.mark.parametrize("has_video", [False, True])
def test_a_version_2_dataset_comes_in_by_a_mapping(store: Store, tmp_path: Path, has_video: bool) -> None:
    done = import_lerobot(store, write_v2(tmp_path / "theirs", has_video=has_video), MAPPING)
    assert (done.episode_ids, done.skipped) == (("theirs-000000",), ())
    episode = store.read("theirs-000000")
    assert [step.frame.stamp_ns - BEGAN_NS for step in episode.steps] == [0, 500_000_000, 1_000_000_000]
    assert [step.action.displacement_m for step in episode.steps] == [
        pytest.approx((0.01, 0, 0)),
        pytest.approx((0, 0, -0.02)),
        (0, 0, 0),
    ]
    assert [step.action.close_gripper for step in episode.steps] == [False, False, True]
    assert (episode.label.is_success, episode.label.source.value) == (True, "import")
    shades = [float(step.frame.decode().mean()) for step in episode.steps]
    assert shades == pytest.approx([40, 120, 200], abs=4 if has_video else 0)


def test_without_actions_and_label_motions_are_taken_and_nothing_is_claimed(store: Store, tmp_path: Path) -> None:
    mapping = dataclasses.replace(MAPPING, action=None, label="")
    import_lerobot(store, write_v2(tmp_path / "theirs", has_video=False), mapping)
    episode = store.read("theirs-000000")
    assert [step.action.displacement_m for step in episode.steps] == [(0, 0, 0)] * 3
    assert episode.steps[-1].action.terminate
    assert episode.label == Label()


def test_a_foreign_dataset_without_a_mapping_is_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_v2(tmp_path / "theirs", has_video=False)
    assert main(["store", "import", str(folder), "--store", str(tmp_path / "store"), "--json"]) == 1
    assert "was not exported by opc: say with --mapping what its columns mean" in capsys.readouterr().err


def test_what_a_mapping_gets_wrong_is_named(store: Store, tmp_path: Path) -> None:
    folder = write_v2(tmp_path / "theirs", has_video=False)
    wrong = dataclasses.replace(MAPPING, camera="observation.images.wrist")
    assert (
        "camera is 'observation.images.wrist', expected one of observation.images.top"
        in (import_lerobot(store, folder, wrong).skipped[0])
    )
    wrong = dataclasses.replace(MAPPING, label="next.reward")
    assert "field 'next.reward'" in import_lerobot(store, folder, wrong).skipped[0]
    with pytest.raises(StoreError, match="recorded is 'yesterday', expected a date"):
        import_lerobot(store, folder, dataclasses.replace(MAPPING, recorded="yesterday"))


def test_datasets_of_other_versions_and_damaged_ones_are_named(store: Store, tmp_path: Path) -> None:
    folder = write_v2(tmp_path / "theirs", has_video=True)
    (folder / "videos/chunk-000/observation.images.top/episode_000000.mp4").write_bytes(b"no video")
    assert "cannot be decoded" in import_lerobot(store, folder, MAPPING).skipped[0]
    (folder / "data/chunk-000/episode_000000.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(StoreError, match=r"episode_000000\.parquet: cannot be read"):
        import_lerobot(store, folder, MAPPING)
    (folder / "meta" / "info.json").write_text('{"codebase_version": "v1.6"}')
    with pytest.raises(StoreError, match=r"codebase_version is 'v1\.6', expected v2\.1 or v3\.0"):
        import_lerobot(store, folder, MAPPING)
