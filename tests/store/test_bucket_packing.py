"""Packing inside a bucket changes no answer and loses nothing, wherever it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.errors import StoreError
from opc_ros.store import Store, open_store, verify
from opc_ros.store.blobs import FolderBlobs
from opc_ros.store.bucket_store import BucketStore, open_store_in
from opc_ros.store.packing import pack
from opc_ros.store.sealed import decode_document, version_of
from opc_ros.store.store_sync import sync_blobs
from tests.store.bucket import Network, append_and_send, machine
from tests.store.grasps import FAILURE, facts_of, fill

pytest.importorskip("obstore")


def test_shards_go_to_a_bucket_and_back_and_are_read_there_piece_by_piece(
    lab: BucketStore, network: Network, store: Store, tmp_path: Path
) -> None:
    fill(store)
    pack(store, is_dropping=True)
    done = sync_blobs(FolderBlobs(store.path), network)
    assert (done.episodes, done.is_complete) == (4, True)
    assert [fact.key for fact in network.list("episodes/") if fact.key.endswith(".mcap")] == []
    assert facts_of(lab) == facts_of(store)
    network.gets = 0
    snapshot = lab.snapshot("week-46")
    assert list(lab.read_snapshot(snapshot)) == list(store.read_snapshot(store.snapshot("week-46")))
    assert lab.file_of("e0").read_bytes() == store.file_of("e0").read_bytes()
    assert verify(lab).problems == ()
    append_and_send(lab, "new", robot="left")
    assert sorted(machine(network, tmp_path / "other").episode_ids()) == ["e0", "e1", "e2", "e3", "new"]
    assert sync_blobs(network, FolderBlobs(tmp_path / "back")).is_complete
    assert facts_of(open_store(tmp_path / "back")) == facts_of(lab)


def files_in(network: Network, folder: str = "episodes/") -> list[str]:
    return [fact.key.rpartition("/")[2] for fact in network.list(folder) if fact.key.endswith(".mcap")]


def fill_bucket(lab: BucketStore) -> None:
    for number in range(4):
        append_and_send(lab, f"e{number}", robot=("left", "right")[number % 2], seed=number)
    lab.label("e0", FAILURE, note="slipped")
    lab.take_snapshot(tag="week-46")


def test_packing_inside_a_bucket_changes_no_answer(lab: BucketStore, network: Network, tmp_path: Path) -> None:
    fill_bucket(lab)
    before, episodes = facts_of(lab), list(lab.read_snapshot(lab.snapshot("week-46")))
    packer = machine(network, tmp_path / "packer")
    done = pack(packer)
    assert (done.shards, done.episodes, done.already, done.dropped, done.damaged) == (2, 4, 0, 0, [])
    assert len(files_in(network, "shards/")) == 2
    assert len(files_in(network)) == 4
    assert verify(lab).problems == ()
    again = pack(packer, is_dropping=True)
    assert (again.shards, again.already, again.dropped) == (0, 4, 4)
    assert files_in(network) == []
    assert decode_document(network.get("store.json"), "store", where="store.json") == {}
    assert version_of(network.get("store.json"), "store.json") == 2
    for reader in (lab, packer, machine(network, tmp_path / "another")):
        assert facts_of(reader) == before
        assert list(reader.read_snapshot(reader.snapshot("week-46"))) == episodes
        assert verify(reader, is_decoding=True).problems == ()


def test_packing_all_at_once_and_in_shards_of_a_size(lab: BucketStore, network: Network) -> None:
    fill_bucket(lab)
    done = pack(lab, robots=("left",), shard_bytes=1, is_dropping=True)
    assert (done.shards, done.episodes, done.dropped) == (2, 2, 2)
    assert sorted(files_in(network)) == ["e1.mcap", "e3.mcap"]
    append_and_send(lab, "e9", robot="left")
    assert pack(lab, robots=("left",), is_dropping=True).already == 2
    assert sorted(files_in(network)) == ["e1.mcap", "e3.mcap"]
    assert [lab.read(name).id for name in ("e0", "e1", "e2", "e3", "e9")] == ["e0", "e1", "e2", "e3", "e9"]


def test_a_reader_that_looked_before_finds_what_was_packed_since(
    lab: BucketStore, network: Network, tmp_path: Path
) -> None:
    fill_bucket(lab)
    reader = machine(network, tmp_path / "reader")
    snapshot = reader.snapshot("week-46")
    first = reader.read_entry(snapshot.entries[0])
    pack(lab, is_dropping=True)
    assert reader.read_entry(snapshot.entries[0]) == first
    assert len(list(reader.read_snapshot(snapshot))) == 4


def test_packing_cut_at_any_write_loses_nothing_and_is_finished_by_the_next(tmp_path: Path) -> None:
    for writes in range(9):
        network = Network()
        lab = open_store_in(network, tmp_path / f"m{writes}", create=True)
        for number in range(2):
            append_and_send(lab, f"e{number}", seed=number)
        committed = {episode.id: episode.file_sha256 for episode in lab.episodes()}
        network.left = writes
        is_cut = False
        try:
            pack(lab, is_dropping=True)
        except StoreError:
            is_cut = True
        # Shard, index, mark, marker, two marks and two originals.
        assert is_cut == (writes < 8)
        network.left = 10**9
        for reader in (lab, machine(network, tmp_path / f"r{writes}")):
            assert {episode.id: episode.file_sha256 for episode in reader.episodes()} == committed
            assert [reader.read(name).id for name in committed] == list(committed)
        pack(machine(network, tmp_path / f"p{writes}"), is_dropping=True)
        assert files_in(network) == []
        assert len(files_in(network, "shards/")) == 1
        assert verify(machine(network, tmp_path / f"v{writes}"), is_decoding=True).problems == ()


def test_a_shard_damaged_in_the_bucket_keeps_its_originals(lab: BucketStore, network: Network) -> None:
    fill_bucket(lab)
    pack(lab, robots=("left",))
    (key,) = (fact.key for fact in network.list("shards/") if fact.key.endswith(".mcap"))
    data = bytearray(network.get(key))
    data[len(data) // 4] ^= 1  # in the first of its two episodes
    network.put(key, bytes(data))
    done = pack(lab, robots=("left",), is_dropping=True)
    assert done.dropped == 1
    assert "episode e0: its file stays" in done.damaged[0]
    assert lab.read("e0").id == "e0"
    assert any("e0 are damaged" in line for line in verify(lab).problems)


def test_a_shard_whose_name_is_taken_by_other_bytes_is_put_again(lab: BucketStore, network: Network) -> None:
    fill_bucket(lab)
    pack(lab, robots=("left",))
    keys = [fact.key for fact in network.list("shards/")]
    (shard,) = (key for key in keys if key.endswith(".mcap"))
    for key in keys:
        network.delete(key)
    network.put(shard, b"half of it")
    told = pack(machine(network, lab.path.parent / "fresh"), robots=("left",))
    assert "is not what its name says" in told.damaged[0]
    assert verify(lab).problems == ()
