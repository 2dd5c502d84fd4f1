from __future__ import annotations

import pytest

from sim_bridge.training.replay import Replay, load_replay
from tests.policies.making import make_episodes


@pytest.fixture(scope="session", autouse=True)
def _one_core() -> None:
    """Networks this small lose time by sharing their work between cores."""
    from opc_ros.policies.compute import limit_threads_here

    limit_threads_here(1)


@pytest.fixture(scope="session")
def replay() -> Replay:
    """Forty episodes of the scripted arm at 32x32."""
    return load_replay(make_episodes(40, image_size=32), image_size=32, count=40)
