"""Where everything is in a store's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from opc_ros.durable import PART
from opc_ros.errors import StoreError

MCAP = ".mcap"
JSON = ".json"
FLAT = "flat"  # for labels and shards of episodes directly below their robot, as in older stores

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, order=True)
class Home:
    """A folder of a robot's episodes: those of one day or, in older stores, all of them."""

    robot: str
    day: str = ""  # 2026-11-18, UTC; empty: directly below the robot's folder


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where one episode's files are."""

    home: Home
    episode_id: str

    @property
    def robot(self) -> str:
        return self.home.robot


def day_of(stamp_ns: int) -> str:
    """The UTC day on which an episode began, by which folders and snapshots group it."""
    return f"{datetime.fromtimestamp(stamp_ns // 1_000_000_000, tz=UTC):%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Paths below one store's root."""

    root: Path
    has_files: bool = True  # False: the mirror of a bucket, which has the episode files

    @property
    def marker(self) -> Path:
        """The file that makes a folder a store."""
        return self.root / "store.json"

    @property
    def episodes(self) -> Path:
        return self.root / "episodes"

    @property
    def labels(self) -> Path:
        return self.root / "labels"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def snapshot_groups(self) -> Path:
        return self.snapshots / "groups"

    @property
    def tags(self) -> Path:
        return self.root / "tags"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def shards(self) -> Path:
        return self.root / "shards"

    @property
    def catalogue(self) -> Path:
        """May be deleted at any time; it is rebuilt from the files."""
        return self.root / "catalogue"

    @property
    def copies(self) -> Path:
        """Single episodes copied out of shards; may be deleted at any time as well."""
        return self.catalogue / "copies"

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.episodes, self.labels, self.snapshots, self.tags, self.quarantine)

    def home_folder(self, home: Home) -> Path:
        return self.episodes / home.robot / home.day if home.day else self.episodes / home.robot

    def label_folder(self, home: Home) -> Path:
        return self.labels / home.robot / (home.day or FLAT)

    def shard_folder(self, home: Home) -> Path:
        return self.shards / home.robot / (home.day or FLAT)

    def file(self, place: Place) -> Path:
        return self.home_folder(place.home) / f"{place.episode_id}{MCAP}"

    def file_part(self, place: Place) -> Path:
        return self.home_folder(place.home) / f"{place.episode_id}{MCAP}{PART}"

    def sidecar(self, place: Place) -> Path:
        return self.home_folder(place.home) / f"{place.episode_id}{JSON}"

    def sidecar_part(self, place: Place) -> Path:
        return self.home_folder(place.home) / f"{place.episode_id}{JSON}{PART}"

    def key_of(self, path: Path) -> str:
        """The key of a path below the root, which is the same in a folder and in a bucket."""
        return path.relative_to(self.root).as_posix()

    def robots(self) -> list[str]:
        return names_in(self.episodes)

    def days(self, robot: str) -> list[str]:
        """The day folders of a robot, oldest first."""
        try:
            with os.scandir(self.episodes / robot) as entries:
                return sorted(entry.name for entry in entries if is_day(entry.name) and entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"{self.episodes / robot}: {error.strerror or error}") from error

    def homes(self) -> Iterator[Home]:
        """Every folder that may contain episodes, in order."""
        for robot in self.robots():
            yield Home(robot)
            yield from (Home(robot, day) for day in self.days(robot))


def is_day(name: str) -> bool:
    return _DAY.fullmatch(name) is not None


def names_in(folder: Path) -> list[str]:
    """Sorted names in a folder, without hidden ones; empty if there is no such folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
