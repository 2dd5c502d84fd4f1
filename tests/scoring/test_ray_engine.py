"""A real Ray cluster on this machine, and a worker killed in the middle of its work."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opc_ros.episode import Episode
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import EpisodeRef, MemorySource
from tests.policies.making import make_candidate, make_episodes

ray = pytest.importorskip("ray")

EPISODES = make_episodes(16)


class DeadlySource(MemorySource):
    """Kills the process that first reads one of its episodes, as a machine that dies would."""

    def __init__(self, episodes: list[Episode], marker: Path) -> None:
        super().__init__(episodes)
        self._marker = marker

    def read(self, ref: EpisodeRef) -> Episode:
        if ref.id == "e00009":
            try:
                self._marker.touch(exist_ok=False)
            except FileExistsError:
                return super().read(ref)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(ref)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    # Never another cluster, which Ray would join if one runs on this machine.
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    usual = [make_candidate(folder / kind, architecture=kind, image_size=32) for kind in ("whole_image", "target_crop")]
    hasty = CrossEntropySearch(samples=4, elites=2, rounds=1)
    return [*usual, make_candidate(folder / "hasty", image_size=32, seed=1, search=hasty)]


def test_ray_gives_the_local_numbers_even_when_a_worker_is_killed(
    tmp_path: Path, cluster: None, candidates: list[Candidate]
) -> None:
    from opc_ros.scoring.ray_engine import RayEngine

    with QCache(tmp_path / "local.sqlite") as q_cache:
        local = score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine())
    marker = tmp_path / "killed"
    with QCache(tmp_path / "ray.sqlite") as q_cache:
        far = score_candidates(DeadlySource(EPISODES, marker), candidates, q_cache, RayEngine())
    assert marker.exists()
    assert far.is_complete
    np.testing.assert_array_equal(far.q, local.q)
    np.testing.assert_array_equal(far.success, local.success)
    assert [look.is_standard for look in local.searches] == [True, True, False]
    assert far.searches == local.searches


def test_bytes_that_are_not_those_of_the_id_are_not_scored(
    tmp_path: Path, cluster: None, candidates: list[Candidate]
) -> None:
    from opc_ros.scoring.ray_engine import RayEngine

    fresh = make_candidate(tmp_path / "fresh", seed=7, image_size=32)  # that no worker has loaded yet
    other = dataclasses.replace(fresh, artifact_bytes=candidates[0].artifact_bytes)
    with QCache(tmp_path / "q.sqlite") as q_cache:
        scored = score_candidates(MemorySource(EPISODES), [other, candidates[1]], q_cache, RayEngine())
    assert [candidate.id for candidate in scored.candidates] == [candidates[1].id]
    assert [failure.reason for failure in scored.failed_candidates] == [
        "the bytes that arrived are not those of its id"
    ]
