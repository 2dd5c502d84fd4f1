"""Where everything lies in a store's folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opc_ros.durable import PART
from opc_ros.episode import check_name

MCAP = ".mcap"
JSON = ".json"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one store's root."""

    root: Path

    @property
    def marker(self) -> Path:
        """What makes a folder a store."""
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
    def tags(self) -> Path:
        return self.root / "tags"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.episodes, self.labels, self.snapshots, self.tags, self.quarantine)

    def file(self, robot: str, episode_id: str) -> Path:
        return self.episodes / robot / f"{episode_id}{MCAP}"

    def file_part(self, robot: str, episode_id: str) -> Path:
        return self.episodes / robot / f"{episode_id}{MCAP}{PART}"

    def sidecar(self, robot: str, episode_id: str) -> Path:
        return self.episodes / robot / f"{episode_id}{JSON}"

    def sidecar_part(self, robot: str, episode_id: str) -> Path:
        return self.episodes / robot / f"{episode_id}{JSON}{PART}"

    def robots(self) -> list[str]:
        return names_in(self.episodes)

    def robot_of(self, episode_id: str) -> str | None:
        """Which robot committed an episode; None where nobody did. An id that is no name never becomes a path."""
        check_name("episode", episode_id)
        for robot in self.robots():
            if self.sidecar(robot, episode_id).exists():
                return robot
        return None

    def sidecars(self) -> Iterator[tuple[str, str]]:
        """(robot, episode id) of every committed episode, in order."""
        for robot in self.robots():
            for name in names_in(self.episodes / robot):
                if name.endswith(JSON):
                    yield robot, name.removesuffix(JSON)


def names_in(folder: Path) -> list[str]:
    """Sorted names in a folder, without hidden ones; none where there is no such folder."""
    try:
        return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
