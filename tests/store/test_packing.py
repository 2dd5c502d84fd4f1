"""Packed episodes are read, checked, copied and removed like loose ones."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mcap.reader import make_reader

from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store import Store, open_store, recover, verify
from opc_ros.store.backup import copy_and_verify, sync_stores
from opc_ros.store.garbage import collect_garbage
from opc_ros.store.layout import Home
from opc_ros.store.packing import pack
from opc_ros.store.shard_format import decode_index
from tests.store.grasps import FAILURE, fill, flatten, make_episode
from tests.store.pack_crashes import crash_packers

DAY = "1970-01-01"  # by the scripted arm's clock


def everything(store: Store) -> list[object]:
    snapshot = store.snapshot("week-46")
    return [*store.episodes(), snapshot, *store.read_snapshot(snapshot), store.snapshot_id_now(), store.tags()]


def shards_of(store: Store, robot: str = "left") -> list[Path]:
    return sorted((store.path / "shards" / robot).rglob("*.mcap"))


def loose(store: Store) -> list[str]:
    return sorted(path.stem for path in store.layout.episodes.rglob("*.mcap"))


@pytest.mark.parametrize("is_dropping", [False, True])
def test_a_packed_store_gives_the_same_answers(store: Store, is_dropping: bool) -> None:
    fill(store)
    before = everything(store)
    sizes = {path.stem: path.stat().st_size for path in store.layout.episodes.rglob("*.mcap")}
    done = pack(store, is_dropping=is_dropping)
    assert (done.shards, done.episodes, done.already, done.damaged) == (2, 4, 0, [])
    assert done.bytes_packed == sum(sizes.values())
    assert (done.dropped, loose(store)) == ((4, []) if is_dropping else (0, ["e0", "e1", "e2", "e3"]))
    for one in (store, open_store(store.path)):
        assert everything(one) == before
        found = verify(one)
        assert (found.episodes, found.problems) == (4, ())
    assert recover(store).is_clean


def test_an_index_names_the_very_bytes_of_each_file(store: Store) -> None:
    fill(store, 3)
    files = {path.stem: path.read_bytes() for path in store.layout.episodes.rglob("*.mcap")}
    pack(store)
    (shard,) = shards_of(store)
    data = shard.read_bytes()
    assert hashlib.sha256(data).hexdigest() == shard.stem
    index = decode_index(shard.with_suffix(".json").read_bytes(), where="index")
    assert [one.id for one in index.episodes] == ["e0", "e2"]
    for one in index.episodes:
        assert data[one.offset : one.offset + one.length] == files[one.id]
        assert hashlib.sha256(files[one.id]).hexdigest() == one.file_sha256


def test_any_mcap_tool_takes_episodes_out_of_a_shard(store: Store) -> None:
    fill(store, 3)
    files = {path.name: path.read_bytes() for path in store.layout.episodes.rglob("*.mcap")}
    pack(store)
    with shards_of(store)[0].open("rb") as file:
        assert {one.name: one.data for one in make_reader(file).iter_attachments()} == {
            name: files[name] for name in ("e0.mcap", "e2.mcap")
        }


def test_shards_end_at_the_size_asked_for(store: Store) -> None:
    for number in range(5):
        store.append(make_episode(f"e{number}", seed=number, image_size=16))
    each = max(episode.file_bytes for episode in store.episodes())
    done = pack(store, shard_bytes=2 * each + 10)
    assert (done.shards, done.episodes) == (3, 5)
    with pytest.raises(StoreError, match="expected at least 1"):
        pack(store, shard_bytes=0)


def test_a_second_run_packs_what_is_new_and_drops_what_an_earlier_one_left(store: Store) -> None:
    fill(store)
    pack(store)
    store.append(make_episode("e9", image_size=16))
    done = pack(store, is_dropping=True)
    assert (done.shards, done.episodes, done.already, done.dropped) == (1, 1, 4, 5)
    again = pack(store, is_dropping=True)
    assert (again.shards, again.episodes, again.already, again.dropped) == (0, 0, 5, 0)
    assert verify(store).problems == ()


def test_the_day_that_is_not_over_and_other_robots_are_left(store: Store) -> None:
    fill(store)
    early = open_store(store.path, now=lambda: 3600 * 10**9)
    done = pack(early, is_dropping=True)
    assert (done.episodes, done.left_today) == (0, 4)
    assert pack(early, robots=("right",), is_today_packed=True, is_dropping=True).dropped == 2
    assert loose(store) == ["e0", "e2"]


def test_labels_go_on_after_packing(store: Store) -> None:
    fill(store)
    pack(store, is_dropping=True)
    assert store.label("e2", FAILURE) == 1
    assert store.read("e2").label == FAILURE
    assert store.take_snapshot().successes == 2  # e1 and e3
    with pytest.raises(StoreError, match="exists, expected an id that no episode of the store has"):
        store.append(make_episode("e2", image_size=16))


def test_a_flat_store_is_packed_too(store: Store) -> None:
    fill(store)
    before = [*store.episodes()]
    flatten(store)
    flat = open_store(store.path)
    assert pack(flat, is_dropping=True).dropped == 4
    assert [*flat.episodes()] == before
    assert {path.parent.name for path in shards_of(flat)} == {"flat"}
    assert verify(flat).problems == ()


def test_a_process_that_looked_before_finds_what_was_packed_since(store: Store) -> None:
    fill(store)
    reader = open_store(store.path)
    first = reader.read("e0")
    pack(store, is_dropping=True)
    assert reader.read("e0") == first
    assert len(list(reader.read_snapshot(reader.snapshot("week-46")))) == 4


def test_a_file_of_a_packed_episode_is_a_copy(store: Store) -> None:
    fill(store)
    data = store.file_of("e0").read_bytes()
    pack(store, is_dropping=True)
    assert store.file_of("e0").read_bytes() == data
    assert store.file_of("e0").is_relative_to(store.layout.catalogue)


def test_only_whole_episodes_are_packed_and_the_others_stay(store: Store) -> None:
    fill(store)
    file = store.file_of("e2")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    done = pack(store, is_dropping=True)
    assert (done.episodes, done.dropped, len(done.damaged)) == (3, 3, 1)
    assert "episode e2" in done.damaged[0]
    assert loose(store) == ["e2"]


def test_a_damaged_shard_is_named_and_costs_only_what_is_damaged(store: Store) -> None:
    fill(store)
    pack(store, is_dropping=True)
    (shard,) = shards_of(store)
    index = decode_index(shard.with_suffix(".json").read_bytes(), where="index")
    flip(shard, index.episodes[1].offset + 50)
    with pytest.raises(EpisodeDamaged, match=f"episode e2: shard .*{shard.stem}"):
        store.read("e2")
    assert store.read("e0").id == "e0"
    problems = verify(store).problems
    assert any(shard.stem in line and "episodes e2 are damaged" in line for line in problems)
    done = recover(store)
    assert [line.partition(":")[0] for line in done.quarantined] == ["e2"]
    assert sorted(store.episode_ids()) == ["e0", "e1", "e3"]
    (entry,) = store.quarantined()[0]
    assert len(entry.files) == 2  # the rest of the episode, and its sidecar


def test_the_original_answers_where_a_shard_is_damaged(store: Store) -> None:
    fill(store)
    before = store.read("e2")
    pack(store)
    (shard,) = shards_of(store)
    index = decode_index(shard.with_suffix(".json").read_bytes(), where="index")
    flip(shard, index.episodes[1].offset + 50)
    assert open_store(store.path).read("e2") == before
    done = pack(store, is_dropping=True)
    assert len(done.damaged) == 1
    assert "e2: its file stays" in done.damaged[0]
    assert loose(store) == ["e2"]


def test_the_shard_answers_where_the_original_is_damaged(store: Store) -> None:
    fill(store)
    before = store.read("e2")
    pack(store)
    flip(store.file_of("e2"), 200)
    assert open_store(store.path).read("e2") == before
    assert any("a shard has it too" in line for line in verify(store).problems)
    assert len(recover(store).quarantined) == 1
    assert open_store(store.path).read("e2") == before
    assert verify(open_store(store.path)).problems == ()


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-40])])
def test_a_lost_index_is_made_again_from_its_shard(store: Store, harm: Callable[[Path], object]) -> None:
    fill(store)
    before = everything(store)
    pack(store, is_dropping=True)
    harm(shards_of(store)[0].with_suffix(".json"))
    with pytest.raises(EpisodeDamaged):
        open_store(store.path).read("e0")
    assert len(recover(store).completed) == 1
    assert everything(open_store(store.path)) == before
    assert verify(store).problems == ()


def test_a_shard_cut_short_keeps_what_is_whole_in_it(store: Store) -> None:
    fill(store)
    pack(store, is_dropping=True)
    (shard,) = shards_of(store)
    index = decode_index(shard.with_suffix(".json").read_bytes(), where="index")
    shard.write_bytes(shard.read_bytes()[: index.episodes[1].offset + 10])
    again = open_store(store.path)
    assert again.read("e0").id == "e0"
    with pytest.raises(EpisodeDamaged, match=r"e2: .*bytes, its index says|e2: shard"):
        again.read("e2")


def test_a_damaged_sidecar_of_a_packed_episode_is_made_again(store: Store) -> None:
    fill(store)
    before = store.read("e2")
    pack(store, is_dropping=True)
    flip(store.layout.sidecar(store.locate("e2")), 40)
    assert recover(store).completed == ["e2: its sidecar was damaged"]
    assert open_store(store.path).read("e2") == before
    assert verify(store).problems == ()


def test_an_older_opc_ros_does_not_open_a_store_without_its_files(store: Store) -> None:
    fill(store)
    pack(store)
    assert '"version": 1' in store.layout.marker.read_text()
    pack(store, is_dropping=True)
    assert '"version": 2' in store.layout.marker.read_text()
    assert sorted(open_store(store.path).episode_ids()) == ["e0", "e1", "e2", "e3"]


@pytest.mark.parametrize("is_dropping", [False, True])
def test_copies_of_a_packed_store_bring_its_shards(store: Store, tmp_path: Path, is_dropping: bool) -> None:
    fill(store)
    pack(store, is_dropping=is_dropping)
    checked = copy_and_verify(store.path, tmp_path / "copy")
    assert checked.is_good
    assert checked.copied.episodes == 4
    copy = open_store(tmp_path / "copy")
    assert everything(copy) == everything(store)
    assert loose(copy) == []  # nothing twice
    again = sync_stores(store.path, tmp_path / "copy")
    assert (again.episodes, again.others, again.kept, again.bytes_copied) == (0, 0, 4, 0)
    if is_dropping:
        assert copy.layout.marker.read_bytes() == store.layout.marker.read_bytes()


def test_a_copy_that_has_the_episodes_takes_no_shard(store: Store, tmp_path: Path) -> None:
    fill(store)
    sync_stores(store.path, tmp_path / "copy")
    pack(store, is_dropping=True)
    done = sync_stores(store.path, tmp_path / "copy")
    assert (done.episodes, done.others, done.kept, done.is_complete) == (0, 0, 4, True)


def test_a_copy_of_a_damaged_shard_takes_what_is_whole(store: Store, tmp_path: Path) -> None:
    fill(store)
    pack(store, is_dropping=True)
    (shard,) = shards_of(store)
    index = decode_index(shard.with_suffix(".json").read_bytes(), where="index")
    flip(shard, index.episodes[1].offset + 50)
    done = sync_stores(store.path, tmp_path / "copy")
    assert (done.episodes, len(done.damaged)) == (3, 1)
    assert "e2.json" in done.damaged[0]
    copy = open_store(tmp_path / "copy")
    assert sorted(copy.episode_ids()) == ["e0", "e1", "e3"]
    pinned = store.tags()["week-46"][:12]
    assert verify(copy).problems == (f"snapshot {pinned}: episode e2 is not in the store any more",)


def test_a_store_that_lost_a_shard_gets_it_back(store: Store, tmp_path: Path) -> None:
    fill(store)
    pack(store, is_dropping=True)
    before = everything(store)
    sync_stores(store.path, tmp_path / "copy")
    shards_of(store)[0].unlink()
    assert len(open_store(store.path).damage()) == 2
    assert sync_stores(tmp_path / "copy", store.path).is_complete
    assert everything(open_store(store.path)) == before


def test_a_shard_goes_once_all_its_episodes_have_left(store: Store) -> None:
    fill(store)
    pack(store, is_dropping=True)
    for path in store.layout.shards.rglob("*.*"):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    store.layout.sidecar(store.locate("e0")).unlink()
    assert collect_garbage(store).shards == []
    store.layout.sidecar(store.locate("e2")).unlink()
    assert len(collect_garbage(store, is_trial=True).shards) == 2
    assert len(collect_garbage(store).shards) == 2
    assert shards_of(store) == []
    assert len(shards_of(store, "right")) == 1


def test_leftovers_of_a_killed_run_are_cleared(store: Store) -> None:
    fill(store)
    folder = store.layout.shard_folder(Home("left", DAY))
    folder.mkdir(parents=True)
    (folder / ".abc.mcap.part").write_bytes(b"half a shard")
    assert recover(store, settle_s=0.0).removed == [f"shards/left/{DAY}/.abc.mcap.part"]


def test_packers_killed_at_any_moment_lose_no_acknowledged_episode(tmp_path: Path) -> None:
    outcome = crash_packers(tmp_path / "store", kills=6, seed=1)
    assert outcome.acknowledged > 0
    assert (outcome.lost, outcome.quarantined, outcome.problems) == ((), 0, ())


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
