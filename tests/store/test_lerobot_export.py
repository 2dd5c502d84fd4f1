"""LeRobot datasets: the documented v3.0 layout, with the recorded numbers and images."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from opc_ros.errors import StoreError
from opc_ros.store import Store
from opc_ros.store import lerobot_layout as layout
from opc_ros.store.lerobot_export import export_lerobot
from opc_ros.store.lerobot_stats import image_stats, merge_stats, vector_stats
from tests.store.grasps import FAILURE, make_episode
from tests.store.points import make_point


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    store.append(make_episode("a"))
    store.append(make_episode("b", robot="right", label=FAILURE, encoding="rgb8", object_set=""))
    done = export_lerobot(store, store.take_snapshot(), tmp_path / "dataset")
    assert (done.episodes, done.frames, done.fps) == (2, 6, 10)
    return done.folder


def test_the_layout_is_that_of_version_3(folder: Path) -> None:
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json",
        "meta/opc_ros.json",
        "meta/stats.json",
        "meta/tasks.parquet",
    ]
    info = json.loads((folder / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"], info["fps"]) == (2, 6, 2, 10)
    assert info["splits"] == {"train": "0:2"}
    assert info["data_path"] == "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    assert info["features"]["observation.images.camera"] == {
        "dtype": "image",
        "shape": [64, 64, 3],
        "names": ["height", "width", "channels"],
    }
    for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        assert info["features"][name]["shape"] == [1]


def test_every_column_is_declared_and_holds_what_was_recorded(folder: Path) -> None:
    file = pq.ParquetFile(folder / "data" / "chunk-000" / "file-000.parquet")
    info = json.loads((folder / "meta" / "info.json").read_text())
    assert set(file.schema_arrow.names) == set(info["features"])
    assert file.num_row_groups == 2
    rows = file.read().to_pylist()
    first, second = make_episode("a"), make_episode("b", encoding="rgb8")
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert [row["episode_index"] for row in rows] == [0, 0, 0, 1, 1, 1]
    assert [row["frame_index"] for row in rows] == [0, 1, 2, 0, 1, 2]
    assert [row["timestamp"] for row in rows] == pytest.approx([0.0, 0.1, 0.2] * 2)
    assert [row["observation.elapsed_s"] for row in rows] == pytest.approx([0.0, 0.1, 0.2] * 2)
    assert [row["next.done"] for row in rows] == [False, False, True] * 2
    assert [row["next.success"] for row in rows] == [False, False, True, False, False, False]
    assert [row["next.reward"] for row in rows] == [0, 0, 1, 0, 0, 0]
    np.testing.assert_array_equal([row["action"] for row in rows[:3]], first.actions())
    assert rows[1]["observation.state"] == pytest.approx(first.steps[1].tool.to_vector().tolist())
    assert rows[0]["observation.images.camera"]["bytes"] == first.steps[0].frame.data
    png = np.frombuffer(rows[3]["observation.images.camera"]["bytes"], dtype=np.uint8)
    decoded = cv2.cvtColor(cv2.imdecode(png, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    np.testing.assert_array_equal(decoded, second.steps[0].observe().image)


def test_episodes_and_tasks_are_indexed(folder: Path) -> None:
    rows = pq.read_table(folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [(row["dataset_from_index"], row["dataset_to_index"], row["length"]) for row in rows] == [
        (0, 3, 3),
        (3, 6, 3),
    ]
    assert [row["tasks"] for row in rows] == [["grasp one of the cups"], ["grasp an object"]]
    assert [row["opc/episode_id"] for row in rows] == ["a", "b"]
    assert np.shape(rows[0]["stats/observation.images.camera/mean"]) == (3, 1, 1)
    tasks = pq.read_table(folder / "meta" / "tasks.parquet")
    assert tasks.to_pydict() == {"task_index": [0, 1], "task": ["grasp one of the cups", "grasp an object"]}
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]


def test_statistics_are_those_of_all_frames(folder: Path) -> None:
    stats = json.loads((folder / "meta" / "stats.json").read_text())
    actions = np.concatenate([make_episode("a").actions(), make_episode("b").actions()]).astype(np.float64)
    np.testing.assert_allclose(stats["action"]["mean"], actions.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(stats["action"]["std"], actions.std(axis=0), atol=1e-7)
    np.testing.assert_allclose(stats["action"]["min"], actions.min(axis=0))
    assert stats["action"]["count"] == [6]
    assert np.shape(stats["observation.images.camera"]["q50"]) == (3, 1, 1)
    assert np.max(stats["observation.images.camera"]["max"]) <= 1.0


def test_merging_statistics_gives_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 4))
    merged = merge_stats([vector_stats(values[:10]), vector_stats(values[10:])])
    np.testing.assert_allclose(merged.mean, values.mean(axis=0))
    np.testing.assert_allclose(merged.std, values.std(axis=0))
    np.testing.assert_array_equal(merged.max, values.max(axis=0))
    assert merged.count.tolist() == [30]


def test_image_statistics_are_by_channel_between_zero_and_one() -> None:
    red = np.zeros((4, 4, 3), dtype=np.uint8)
    red[..., 0] = 255
    stats = image_stats([red, np.zeros((4, 4, 3), dtype=np.uint8)])
    np.testing.assert_allclose(stats.mean.ravel(), [0.5, 0.0, 0.0])
    np.testing.assert_allclose(stats.std.ravel(), [0.5, 0.0, 0.0])
    assert stats.count.tolist() == [2]


def test_large_datasets_are_cut_into_files(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FILE_MEGABYTES", 0.01)
    monkeypatch.setattr(layout, "CHUNK_FILES", 2)
    for name in ("a", "b", "c"):
        store.append(make_episode(name))
    done = export_lerobot(store, store.take_snapshot(), tmp_path / "dataset")
    assert sorted(path.parent.name + "/" + path.name for path in (done.folder / "data").rglob("*.parquet")) == [
        "chunk-000/file-000.parquet",
        "chunk-000/file-001.parquet",
        "chunk-001/file-000.parquet",
    ]
    rows = pq.read_table(done.folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [(row["data/chunk_index"], row["data/file_index"]) for row in rows] == [(0, 0), (0, 1), (1, 0)]


def test_images_of_two_sizes_are_refused_and_nothing_is_left(store: Store, tmp_path: Path) -> None:
    store.append(make_episode("a", image_size=32))
    store.append(make_episode("b", image_size=48))
    with pytest.raises(StoreError, match=r"episode b: image of step 0 has shape \(48, 48, 3\)"):
        export_lerobot(store, store.take_snapshot(), tmp_path / "dataset")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_an_existing_folder_is_not_touched(store: Store, tmp_path: Path) -> None:
    store.append(make_episode())
    with pytest.raises(StoreError, match="expected a new folder"):
        export_lerobot(store, store.take_snapshot(), tmp_path)


def test_points_of_pong_are_exported_without_a_state_and_not_beside_grasps(store: Store, tmp_path: Path) -> None:
    store.append(make_point("p1"))
    export_lerobot(store, store.take_snapshot(), tmp_path / "pong")
    info = json.loads((tmp_path / "pong" / "meta" / "info.json").read_text())
    assert info["features"]["action"] == {"dtype": "float32", "shape": [1], "names": ["move"]}
    assert "observation.state" not in info["features"]
    store.append(make_episode("e1", image_size=16))
    with pytest.raises(StoreError, match=r"expected .* as before: LeRobot wants one set of columns"):
        export_lerobot(store, store.take_snapshot(), tmp_path / "both")
