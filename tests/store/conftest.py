"""A fresh store for each of the store's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)
