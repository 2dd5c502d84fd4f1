"""Copies of stores: complete, checked, and resumed where they were interrupted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.errors import StoreError
from opc_ros.store import Store, open_store, verify
from opc_ros.store.backup import copy_and_verify, sync_stores
from opc_ros.store.blobs import Blobs, FolderBlobs, check_key
from opc_ros.store.garbage import collect_garbage
from opc_ros.store.quota import Quota, measure_usage, warnings, write_quota
from opc_ros.store.store_sync import sync_blobs
from tests.store.blobs_contract import check_contract
from tests.store.grasps import SUCCESS, facts_of, fill, flatten, make_episode

DAY_NS = 86_400_000_000_000


class BreakingBlobs(FolderBlobs):
    """A folder whose disk or network fails at one of its writes."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root)
        self.left = writes

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.left -= 1
        if self.left < 0:
            raise StoreError("no route to the bucket")
        return super().put_if_absent(key, data)


def test_a_synced_store_holds_the_same_and_a_second_run_copies_nothing(store: Store, tmp_path: Path) -> None:
    fill(store)
    done = sync_stores(store.path, tmp_path / "lab")
    assert (done.episodes, done.kept, done.conflicts, done.damaged) == (4, 0, [], [])
    copy = open_store(tmp_path / "lab")
    assert facts_of(copy) == facts_of(store)
    assert list(copy.read_snapshot(copy.snapshot("week-46"))) == list(store.read_snapshot(store.snapshot("week-46")))
    again = sync_stores(store.path, tmp_path / "lab")
    assert (again.episodes, again.others, again.kept, again.bytes_copied) == (0, 0, 4, 0)


def test_two_robots_meet_in_one_lab(store: Store, tmp_path: Path) -> None:
    other = open_store(tmp_path / "other", create=True)
    store.append(make_episode("a1", robot="left", image_size=16))
    other.append(make_episode("b1", robot="right", image_size=16))
    for path in (store.path, other.path):
        assert sync_stores(path, tmp_path / "lab").is_complete
    lab = open_store(tmp_path / "lab")
    assert sorted(lab.episode_ids()) == ["a1", "b1"]
    assert verify(lab).problems == ()


def test_a_copy_interrupted_at_any_write_is_a_whole_store_and_resumes(store: Store, tmp_path: Path) -> None:
    fill(store, 2)
    total = 0
    while True:
        target = tmp_path / f"lab{total}"
        breaking = BreakingBlobs(target, total)
        try:
            sync_blobs(FolderBlobs(store.path), breaking)
            break
        except StoreError:
            total += 1
        if (target / "store.json").exists():
            half = open_store(target)
            assert set(half.episode_ids()) <= {"e0", "e1"}
            for episode_id in half.episode_ids():
                assert half.read(episode_id).steps == store.read(episode_id).steps
        assert sync_stores(store.path, target).is_complete
        assert facts_of(open_store(target)) == facts_of(store)
    assert total > 6


def test_a_store_of_the_older_layout_is_copied_as_it_is(store: Store, tmp_path: Path) -> None:
    fill(store)
    flatten(store)
    assert sync_stores(store.path, tmp_path / "lab").is_complete
    assert verify(open_store(tmp_path / "lab")).problems == ()
    assert sync_stores(store.path, tmp_path / "lab").kept == 4


def test_another_episode_of_the_same_id_is_reported_and_stays(store: Store, tmp_path: Path) -> None:
    other = open_store(tmp_path / "lab", create=True)
    store.append(make_episode("e1", image_size=16))
    mine = other.append(make_episode("e1", image_size=24))
    done = sync_stores(store.path, other.path)
    assert len(done.conflicts) == 1
    assert "another episode has this id" in done.conflicts[0]
    assert other.find("e1").file_sha256 == mine.file_sha256


def test_damaged_and_uncommitted_episodes_are_not_copied(store: Store, tmp_path: Path) -> None:
    fill(store)
    file = store.file_of("e1")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    store.begin(make_episode("running", image_size=16).header)
    done = sync_stores(store.path, tmp_path / "lab")
    assert len(done.damaged) == 1
    assert "not what was committed" in done.damaged[0]
    assert sorted(open_store(tmp_path / "lab").episode_ids()) == ["e0", "e2", "e3"]


def test_a_target_that_is_no_store_or_the_source_itself_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(StoreError, match="is no store"):
        sync_stores(store.path, tmp_path / "photos")
    with pytest.raises(StoreError, match="both source and target"):
        sync_stores(store.path, store.path)
    with pytest.raises(StoreError, match="not a validation store"):
        sync_stores(tmp_path / "nothing", tmp_path / "lab")


def test_a_backup_is_read_back_and_restores_what_was_lost(store: Store, tmp_path: Path) -> None:
    fill(store)
    before = facts_of(store)
    assert copy_and_verify(store.path, tmp_path / "backup").is_good
    for path in (store.file_of("e2"), store.layout.sidecar(store.locate("e2"))):
        path.unlink()
    restored = copy_and_verify(tmp_path / "backup", store.path)
    assert restored.is_good
    assert restored.copied.episodes == 1
    assert facts_of(open_store(store.path)) == before


def test_a_backup_that_rots_is_noticed(store: Store, tmp_path: Path) -> None:
    fill(store)
    copy_and_verify(store.path, tmp_path / "backup")
    rotten = open_store(tmp_path / "backup").file_of("e3")
    rotten.write_bytes(rotten.read_bytes()[:-1] + b"?")
    done = copy_and_verify(store.path, tmp_path / "backup")
    assert not done.is_good
    assert any("e3" in line for line in done.verified.problems)


@pytest.mark.parametrize("key", ["", "/etc/passwd", "../up", "a/../b", "a//b", ".hidden", "a/.part", "a\\b", "a\0"])
def test_a_key_never_leaves_its_folder(key: str) -> None:
    with pytest.raises(StoreError, match="no name below a store"):
        check_key(key)


def folder_blobs(tmp_path: Path) -> Blobs:
    return FolderBlobs(tmp_path / "blobs")


@pytest.mark.parametrize("make", [folder_blobs])
def test_blobs_keep_their_contract(make: Callable[[Path], Blobs], tmp_path: Path) -> None:
    check_contract(make(tmp_path))


def test_gc_removes_old_quarantine_and_nothing_that_counts(store: Store) -> None:
    fill(store)
    for number in range(2):
        writer = store.begin(make_episode(f"q{number}", image_size=16).header)
        writer.quarantine("camera died")
    old = open_store(store.path, now=lambda: store.now() + 100 * DAY_NS)
    old.begin(make_episode("fresh", image_size=16).header).quarantine("just now")
    before = facts_of(store)
    assert collect_garbage(old).quarantined == []
    trial = collect_garbage(old, quarantine_older_than_days=90, is_trial=True)
    assert len(trial.quarantined) == 4
    assert len(store.quarantined()[0]) == 3
    assert collect_garbage(old, quarantine_older_than_days=90) == trial
    assert [entry.episode_id for entry in store.quarantined()[0]] == ["fresh"]
    assert facts_of(store) == before
    assert verify(store).problems == ()


def test_gc_removes_parts_of_snapshots_that_were_never_finished(store: Store) -> None:
    import os

    fill(store)
    (unfinished,) = set(store.snapshots())
    store.append(make_episode("later", image_size=16, label=SUCCESS))
    snapshot = store.take_snapshot()
    (store.layout.snapshots / f"{unfinished}.json").unlink()
    parts = list(store.layout.snapshot_groups.rglob("*.json"))
    assert collect_garbage(store).parts == []  # a snapshot being written may still list them
    for path in parts:
        os.utime(path, (1, 1))
    assert len(collect_garbage(store).parts) == 1
    assert len(list(store.read_snapshot(store.snapshot(snapshot.id)))) == 5


def test_a_quota_warns_near_its_limit_and_refuses_nothing(store: Store) -> None:
    fill(store)
    used = store.statistics().total.file_bytes
    left = store.statistics().by_robot["left"].file_bytes
    assert warnings(store) == []
    write_quota(store, Quota(total_bytes=2 * used))
    assert warnings(store) == []
    write_quota(store, Quota(total_bytes=used + 1, robots={"left": left - 1, "none": 5}))
    assert [(usage.name, usage.is_near, usage.is_over) for usage in measure_usage(store)] == [
        ("", True, False),
        ("left", True, True),
        ("none", False, False),
    ]
    assert len(warnings(store)) == 2
    store.append(dataclasses.replace(make_episode("more", image_size=16)))
