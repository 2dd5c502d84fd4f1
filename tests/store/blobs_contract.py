"""What every place for a store's bytes has to do."""

from __future__ import annotations

import pytest

from opc_ros.errors import BlobNotFound, StoreError
from opc_ros.store.blobs import Blobs


def check_contract(blobs: Blobs) -> None:
    assert list(blobs.list()) == []
    assert blobs.head("a/b") is None
    with pytest.raises(BlobNotFound):
        blobs.get("a/b")
    assert blobs.put_if_absent("a/b", b"0123456789")
    assert not blobs.put_if_absent("a/b", b"other")
    assert blobs.get("a/b") == b"0123456789"
    assert blobs.range("a/b", 2, 3) == b"234"
    with pytest.raises(StoreError):
        blobs.range("a/b", 8, 5)
    blobs.put("a.txt", b"x")
    before = blobs.head("a.txt")
    blobs.put("a.txt", b"yy")
    after = blobs.head("a.txt")
    assert before is not None
    assert after is not None
    assert before.mark != after.mark
    assert after.size == 2
    assert sorted(fact.key for fact in blobs.list()) == ["a.txt", "a/b"]
    assert [(fact.key, fact.size) for fact in blobs.list("a/")] == [("a/b", 10)]
    blobs.delete("a/b")
    blobs.delete("a/b")
    assert blobs.head("a/b") is None
