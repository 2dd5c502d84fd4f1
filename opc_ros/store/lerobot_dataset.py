"""Reading LeRobot dataset folders of versions 2.1 and 3.0: rows, episodes and images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opc_ros.documents import parse_json, read_bytes
from opc_ros.episode import Frame
from opc_ros.errors import StoreError
from opc_ros.store import lerobot_layout as layout

VERSIONS = ("v2.1", layout.VERSION)
_CHUNK_EPISODES = 1000


@dataclass(frozen=True, slots=True)
class DatasetEpisode:
    """One episode: its metadata, and its rows without images."""

    index: int
    meta: dict[str, Any]
    rows: list[dict[str, Any]]
    embedded: dict[str, list[Any]]  # images by feature, if they are embedded in the table


def is_dataset(folder: Path) -> bool:
    return (folder / "meta" / "info.json").is_file()


class LerobotDataset:
    """A dataset's folder; files are read on demand, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / "meta" / "info.json"
        info = parse_json(read_bytes(path, error=StoreError), where=str(path), error=StoreError)
        version = info.get("codebase_version") if isinstance(info, dict) else None
        if version not in VERSIONS:
            raise StoreError(f"{path}: codebase_version is {version!r}, expected {' or '.join(VERSIONS)}")
        features, fps = info.get("features"), info.get("fps")
        if not isinstance(features, dict) or not isinstance(fps, int | float) or fps <= 0:
            raise StoreError(f"{path}: has no features or no fps, expected those of a LeRobot dataset")
        self._is_v3 = version == layout.VERSION
        self._fps = float(fps)
        self._kinds = {name: value.get("dtype") for name, value in features.items() if isinstance(value, dict)}
        self._metas = list(self._read_v3_metas() if self._is_v3 else self._read_v2_metas())
        self._table: tuple[Path, pa.Table] | None = None
        self.total = len(self._metas)
        self.written_ns = path.stat().st_mtime_ns

    def camera(self, wanted: str) -> str:
        """The feature that holds images: the named one, or the only one."""
        cameras = [name for name, kind in self._kinds.items() if kind in ("image", "video")]
        if wanted in cameras or (not wanted and len(cameras) == 1):
            return wanted or cameras[0]
        raise StoreError(
            f"{self._folder}: camera is {wanted!r}, expected one of {', '.join(cameras) or 'none: it has no images'}"
        )

    def episodes(self) -> Iterator[DatasetEpisode]:
        for meta in self._metas:
            index = meta["episode_index"]
            table = self._read_table(self._data_path(meta))
            if "episode_index" not in table.column_names or "timestamp" not in table.column_names:
                raise StoreError(f"{self._data_path(meta)}: has no episode_index or no timestamp, expected both")
            mask = pc.equal(table["episode_index"], index)
            own = table.filter(mask)
            images = [name for name in own.column_names if self._kinds.get(name) == "image"]
            rows = own.drop_columns(images).to_pylist()
            if not rows:
                raise StoreError(f"{self._data_path(meta)}: holds no row of episode {index}")
            yield DatasetEpisode(index, meta, rows, {name: own[name].to_pylist() for name in images})

    def images(self, episode: DatasetEpisode, camera: str) -> list[bytes]:
        """One encoded image for each row."""
        if camera in episode.embedded:
            held = [image.get("bytes") if isinstance(image, dict) else None for image in episode.embedded[camera]]
            found = [image for image in held if isinstance(image, bytes)]
            if len(found) != len(held):
                raise StoreError(f"episode {episode.index}: {camera} holds paths, expected embedded images or a video")
            return found
        return self._read_video(episode, camera)

    def _read_video(self, episode: DatasetEpisode, camera: str) -> list[bytes]:
        path, first = self._video_place(episode, camera)
        if not path.is_file():
            raise StoreError(f"{path}: no such video")
        video = cv2.VideoCapture(str(path))
        images = []
        try:
            for number in range(first + len(episode.rows)):
                done, pixels = video.read()
                if not done:
                    raise StoreError(
                        f"{path}: frame {number} cannot be decoded, expected {len(episode.rows)} from {first}"
                    )
                if number >= first:
                    images.append(Frame.from_image(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), 0).data)
        finally:
            video.release()
        return images

    def _video_place(self, episode: DatasetEpisode, camera: str) -> tuple[Path, int]:
        if not self._is_v3:
            chunk = f"chunk-{episode.index // _CHUNK_EPISODES:03d}"
            return self._folder / "videos" / chunk / camera / f"episode_{episode.index:06d}.mp4", 0
        key = f"videos/{camera}"
        try:
            chunk_index, file_index = episode.meta[f"{key}/chunk_index"], episode.meta[f"{key}/file_index"]
            first = round(float(episode.meta[f"{key}/from_timestamp"]) * self._fps)
        except (KeyError, TypeError, ValueError):
            raise StoreError(f"episode {episode.index}: nothing says where its video of {camera} lies") from None
        return self._folder / "videos" / camera / f"chunk-{chunk_index:03d}" / f"file-{file_index:03d}.mp4", first

    def _read_v3_metas(self) -> Iterator[dict[str, Any]]:
        files = sorted((self._folder / "meta" / "episodes").glob("chunk-*/file-*.parquet"))
        if not files:
            raise StoreError(f"{self._folder / 'meta' / 'episodes'}: no episodes are listed")
        for file in files:
            table = _read_parquet(file)
            if "episode_index" not in table.column_names:
                raise StoreError(f"{file}: has no episode_index")
            yield from table.drop_columns(
                [name for name in table.column_names if name.startswith("stats/")]
            ).to_pylist()

    def _read_v2_metas(self) -> Iterator[dict[str, Any]]:
        path = self._folder / "meta" / "episodes.jsonl"
        for number, line in enumerate(read_bytes(path, error=StoreError).splitlines(), start=1):
            if line.strip():
                meta = parse_json(line, where=f"{path}:{number}", error=StoreError)
                if not isinstance(meta, dict) or not isinstance(meta.get("episode_index"), int):
                    raise StoreError(f"{path}:{number}: has no episode_index")
                yield meta

    def _data_path(self, meta: dict[str, Any]) -> Path:
        if self._is_v3:
            place = {"chunk_index": meta.get("data/chunk_index", 0), "file_index": meta.get("data/file_index", 0)}
            return self._folder / layout.DATA_PATH.format(**place)
        index = meta["episode_index"]
        return self._folder / "data" / f"chunk-{index // _CHUNK_EPISODES:03d}" / f"episode_{index:06d}.parquet"

    def _read_table(self, path: Path) -> pa.Table:
        if self._table is None or self._table[0] != path:
            self._table = (path, _read_parquet(path))
        return self._table[1]


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
