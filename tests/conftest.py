"""Fixtures for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Networks as small as those in tests lose time by sharing their work between cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Folders whose tests start processes and wait for them. They come first, so that no core idles at the end.
SLOW = ("faults", "ros", "ros2_ws", "console", "cli", "several_machines")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SLOW.index(item.path.parent.name) if item.path.parent.name in SLOW else len(SLOW))


@pytest.fixture
def ros_domain() -> Iterator[int]:
    """A ROS domain that nobody else on this machine uses, kept to localhost; child processes inherit it."""
    from tests.domains import own_domain

    with own_domain() as domain:
        yield domain
