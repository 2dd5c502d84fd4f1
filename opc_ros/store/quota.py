"""How much a store, or one robot's part of it, may hold before people are warned; nothing is ever refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.durable import replace_file, store_error
from opc_ros.episode import check_name
from opc_ros.errors import StoreError
from opc_ros.store.sealed import encode_document, read_document
from opc_ros.store.store import Store

NAME = "quota.json"


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits in bytes of episode files."""

    total_bytes: int = 0  # 0: no limit
    robots: dict[str, int] = field(default_factory=dict)
    warn_share: float = 0.8  # of a limit; above this share people are warned

    def __post_init__(self) -> None:
        if self.total_bytes < 0 or any(limit < 1 for limit in self.robots.values()):
            raise ValueError("a limit is below 1 byte")
        if not 0.0 < self.warn_share <= 1.0:
            raise ValueError(f"warn_share is {self.warn_share:g}, expected above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of one limit is used."""

    name: str  # of the robot; empty: the whole store
    used_bytes: int
    limit_bytes: int
    is_near: bool  # above the share at which people are warned

    @property
    def is_over(self) -> bool:
        return self.used_bytes > self.limit_bytes

    def __str__(self) -> str:
        share = self.used_bytes / self.limit_bytes
        what = f"robot {self.name}" if self.name else "the store"
        used, limit = self.used_bytes / 1e9, self.limit_bytes / 1e9
        return f"{what} holds {used:.3g} GB of {limit:.3g} GB ({share:.0%})"


def read_quota(store: Store) -> Quota:
    path = _path(store)
    if not path.exists():
        return Quota()
    return parse_config(read_document(path, "quota"), Quota, where=str(path), error=StoreError)


def write_quota(store: Store, quota: Quota) -> None:
    for robot in quota.robots:
        check_name("robot", robot)
    try:
        replace_file(_path(store), encode_document("quota", asdict(quota)))
    except OSError as error:
        raise store_error(f"{_path(store)}: cannot be written", error) from error


def measure_usage(store: Store) -> list[Usage]:
    """Every limit and how much of it is used, by the catalogue's counts."""
    quota = read_quota(store) if store.layout.has_files else Quota()
    if not quota.total_bytes and not quota.robots:
        return []
    statistics = store.statistics()
    found = [("", statistics.total.file_bytes, quota.total_bytes)] if quota.total_bytes else []
    for robot, limit in sorted(quota.robots.items()):
        tally = statistics.by_robot.get(robot)
        found.append((robot, tally.file_bytes if tally is not None else 0, limit))
    return [Usage(name, used, limit, used >= quota.warn_share * limit) for name, used, limit in found]


def warnings(store: Store) -> list[str]:
    """One line for each limit that is nearly or fully used."""
    return [
        f"quota: {usage}; `opc store gc` or another disk makes room" for usage in measure_usage(store) if usage.is_near
    ]


def _path(store: Store) -> Path:
    if not store.layout.has_files:
        raise StoreError(f"{store.path}: set a bucket's quota with its provider")
    return store.path / NAME
