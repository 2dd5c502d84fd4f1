"""What every test may ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Networks as small as those in tests only lose time by sharing their work between cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A ROS domain nobody else on this machine uses, kept to localhost; child processes inherit it."""
    from domain_coordinator import domain_id

    from opc_ros.bringup.shared_memory import sweep_shared_memory

    # A node that another test killed may have left a segment half-made; ports are shared by all domains.
    sweep_shared_memory()
    with domain_id() as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield int(domain)
