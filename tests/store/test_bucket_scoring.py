"""Scoring episodes in a bucket: here, and by Ray workers that share no folder with the scorer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import Store, open_store
from opc_ros.store.backup import sync_stores
from tests.policies.making import make_candidate, make_episodes
from tests.store.s3_server import BUCKET, CREDENTIALS, run_server

ray = pytest.importorskip("ray")
pytest.importorskip("obstore")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    with run_server() as address:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPC_SPOOL", str(tmp_path / "scorer"))
        yield f"s3://{BUCKET}/lab"


def source_of(store: Store) -> SnapshotSource:  # type: ignore[type-arg]
    snapshot = store.snapshot("week-46")
    return SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)


def test_a_bucket_scored_by_ray_gives_the_numbers_of_a_local_folder(bucket: str, tmp_path: Path) -> None:
    from opc_ros.scoring.ray_engine import RayEngine

    folder = open_store(tmp_path / "store", create=True)
    for episode in make_episodes(8):
        folder.append(episode)
    folder.take_snapshot(tag="week-46")
    assert sync_stores(folder.path, bucket).is_complete
    candidates = [make_candidate(tmp_path / kind, architecture=kind, image_size=32) for kind in ("whole_image",)]
    with QCache(tmp_path / "local.sqlite") as q_cache:
        local = score_candidates(source_of(folder), candidates, q_cache, LocalEngine())
    workers = {"env_vars": {"OPC_SPOOL": str(tmp_path / "workers")}}
    ray.init(
        num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, runtime_env=workers
    )
    try:
        with QCache(tmp_path / "ray.sqlite") as q_cache:
            far = score_candidates(source_of(open_store(bucket)), candidates, q_cache, RayEngine())
    finally:
        ray.shutdown()
    assert far.is_complete
    assert far.snapshot_id == local.snapshot_id
    np.testing.assert_array_equal(far.q, local.q)
    assert (tmp_path / "workers").exists()  # they read the bucket themselves
