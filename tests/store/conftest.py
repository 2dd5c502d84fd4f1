"""A fresh store for each of the store's tests: in a folder, or in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.store import Store, open_store
from opc_ros.store.bucket_store import BucketStore, open_store_in
from tests.store.bucket import Network


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def lab(network: Network, tmp_path: Path) -> BucketStore:
    return open_store_in(network, tmp_path / "lab", create=True)
