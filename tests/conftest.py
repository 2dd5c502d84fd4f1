"""What every test may ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Networks as small as those in tests only lose time by sharing their work between cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def ros_domain() -> Iterator[int]:
    """A ROS domain nobody else on this machine uses, kept to localhost; child processes inherit it."""
    from tests.domains import own_domain

    with own_domain() as domain:
        yield domain
