from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_core() -> None:
    """Networks this small only lose time by sharing their work between cores."""
    from opc_ros.policies.compute import limit_threads_here

    limit_threads_here(1)
