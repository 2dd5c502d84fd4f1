"""A full disk: what was committed stays, and what was being written is reported and can be removed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from opc_ros.episode import EpisodeHeader
from opc_ros.errors import StoreError
from opc_ros.store import EpisodeWriter, open_store, recover, verify
from tests.store.grasps import SUCCESS, make_episode

DISK_BYTES = 600_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs that holds little more than one episode."""
    folder = tmp_path / "small"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={DISK_BYTES}".encode()) != 0:
        pytest.skip(f"cannot mount a tmpfs here: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        libc.umount2(bytes(folder), 2)


@pytest.fixture
def file_limit() -> Iterator[None]:
    """No file may grow beyond 100 kB: like a quota or a file system's own limit, without root."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def fill_up(disk: Path) -> Path:
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def write_until_full(writer: EpisodeWriter) -> None:
    steps = make_episode(image_size=472, encoding="rgb8").steps  # 668 kB each: more than the disk holds
    for step in steps:
        writer.add_step(step)
    writer.commit(SUCCESS)


def test_a_full_disk_costs_only_the_running_episode(small_disk: Path) -> None:
    store = open_store(small_disk / "store", create=True)
    committed = store.append(make_episode("before", image_size=64))
    writer = store.begin(EpisodeHeader("e1", "left", "scripted", 0))
    with pytest.raises(StoreError, match="No space left on device; free space"):
        write_until_full(writer)
    with pytest.raises(StoreError, match="only quarantine or discard are left"):
        writer.add_step(make_episode().steps[0])
    writer.discard()
    assert [found.file_sha256 for found in store.episodes()] == [committed.file_sha256]
    assert verify(store).problems == ()
    store.append(make_episode("after", image_size=64))
    assert [found.id for found in store.episodes()] == ["after", "before"]


def test_an_episode_cut_off_by_a_full_disk_can_be_quarantined_once_there_is_space(small_disk: Path) -> None:
    store = open_store(small_disk / "store", create=True)
    writer = store.begin(EpisodeHeader("e1", "left", "scripted", 0))
    with pytest.raises(StoreError, match="No space left"):
        write_until_full(writer)
    with pytest.raises(StoreError, match=r"stays at .*e1\.mcap\.part"):
        writer.quarantine("disk full")
    del writer
    part = small_disk / "store" / "episodes" / "left" / "1970-01-01" / "e1.mcap.part"
    os.truncate(part, 200_000)  # make room
    assert len(recover(store).quarantined) == 1
    assert verify(store).problems == ()


def test_a_disk_that_fills_up_at_the_very_commit_leaves_no_half_episode(small_disk: Path) -> None:
    store = open_store(small_disk / "store", create=True)
    writer = store.begin(EpisodeHeader("e1", "left", "scripted", 0))
    for step in make_episode(image_size=64).steps:
        writer.add_step(step)
    filler = fill_up(small_disk)
    with pytest.raises(StoreError, match="cannot commit: No space left on device"):
        writer.commit(SUCCESS)
    assert list(store.episodes()) == []
    assert not list((store.path / "episodes" / "left" / "1970-01-01").glob("e1.json*"))
    filler.unlink()
    writer.quarantine("disk full")
    assert "No space left" in store.quarantined()[0][0].reason
    assert verify(store).problems == ()


def test_labels_and_snapshots_on_a_full_disk_fail_in_one_line(small_disk: Path) -> None:
    store = open_store(small_disk / "store", create=True)
    store.append(make_episode(image_size=64))
    fill_up(small_disk)
    with pytest.raises(StoreError, match="cannot label: No space"):
        store.label("e1", SUCCESS)
    with pytest.raises(StoreError, match="cannot write a snapshot: No space"):
        store.take_snapshot()
    assert store.find("e1").label_revision == 0
    assert store.snapshots() == []


@pytest.mark.usefixtures("file_limit")
def test_a_file_size_limit_is_told_like_a_full_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    writer = store.begin(EpisodeHeader("e1", "left", "scripted", 0))
    with pytest.raises(StoreError, match="File too large; free space"):
        write_until_full(writer)
    kept = writer.quarantine("limit")
    assert kept.exists()
    assert verify(store).problems == ()
