"""Ids of episodes: they sort by time and are safe as file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from opc_ros.errors import RecordingError

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")


def make_episode_id(robot: str, now_ns: int) -> str:
    """An id such as `arm1-20261116T033712.123456`, unique per robot and microsecond."""
    began = datetime.fromtimestamp(now_ns // 1_000_000_000, tz=UTC)
    return f"{robot}-{began:%Y%m%dT%H%M%S}.{now_ns // 1000 % 1_000_000:06d}"


def check_episode_id(episode_id: str) -> str:
    if not _SAFE.fullmatch(episode_id):
        raise RecordingError(
            f"episode id {episode_id!r}: expected up to 120 letters, digits, '_', '-' or '.', not '-' or '.' first"
        )
    return episode_id
