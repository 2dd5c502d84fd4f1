"""A store in a bucket: the same as one in a folder, for several machines, over a network that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store import Store, open_store, recover, verify
from opc_ros.store.blobs import FolderBlobs
from opc_ros.store.bucket_store import BucketStore, open_store_in
from opc_ros.store.locations import absolute_location
from opc_ros.store.object_blobs import ObjectBlobs, open_bucket
from opc_ros.store.store_sync import sync_blobs
from tests.store.blobs_contract import check_contract
from tests.store.bucket import Network, append_and_send, machine
from tests.store.grasps import FAILURE, SUCCESS, facts_of, fill, make_episode

obstore = pytest.importorskip("obstore")


def test_objects_keep_the_contract_of_blobs(network: Network) -> None:
    check_contract(network)


def test_what_one_machine_records_others_find_label_and_pin(lab: BucketStore, network: Network, tmp_path: Path) -> None:
    append_and_send(lab, "a", robot="left")
    append_and_send(lab, "b", robot="right", label=FAILURE)
    other = machine(network, tmp_path / "other")
    assert sorted(other.episode_ids()) == ["a", "b"]
    assert other.label("a", FAILURE, note="slipped") == 1
    assert lab.label("a", SUCCESS, note="no") == 2
    assert lab.find("a").label_revision == other.find("a").label_revision == 2
    snapshot = lab.take_snapshot(tag="week-46")
    assert other.snapshot("week-46").id == snapshot.id == other.snapshot_id_now()
    assert [e.id for e in other.read_snapshot(other.snapshot("week-46"))] == ["a", "b"]
    assert verify(other, is_decoding=True).problems == ()
    assert lab.sender.waiting() == []


def test_a_bucket_and_a_folder_give_the_same_answers_and_the_same_snapshot_id(
    lab: BucketStore, network: Network, store: Store, tmp_path: Path
) -> None:
    fill(store)
    assert sync_blobs(FolderBlobs(store.path), network).is_complete
    assert facts_of(lab) == facts_of(store)
    assert lab.snapshot_id_now() == store.snapshot_id_now()
    assert sync_blobs(network, FolderBlobs(tmp_path / "back")).is_complete
    assert facts_of(open_store(tmp_path / "back")) == facts_of(store)


def test_a_poll_with_nothing_new_is_one_request(lab: BucketStore, network: Network) -> None:
    append_and_send(lab, "a")
    lab.catalogue.refresh()
    network.lists = network.gets = 0
    lab.catalogue.refresh()
    assert (network.lists, network.gets) == (1, 0)
    append_and_send(lab, "b")
    network.gets = 0
    assert sorted(lab.episode_ids()) == ["a", "b"]
    assert network.gets == 1


def test_without_a_network_recording_goes_on_and_nothing_is_lost(
    lab: BucketStore, network: Network, tmp_path: Path
) -> None:
    network.is_up = False
    again = open_store_in(network, tmp_path / "lab", create=True)
    with pytest.raises(StoreError, match="not yet in s3://memory/lab"), again:
        again.append(make_episode("a", image_size=16))
    network.is_up = True
    with open_store_in(network, tmp_path / "lab") as later:
        assert list(later.episode_ids()) == []
        append_and_send(later, "b")
    assert sorted(machine(network, tmp_path / "other").episode_ids()) == ["a", "b"]


def test_an_upload_cut_at_any_write_is_finished_by_the_next(tmp_path: Path) -> None:
    for writes in range(4):
        network = Network()
        store = open_store_in(network, tmp_path / f"m{writes}", create=True)
        committed = store.writable.append(make_episode("a", image_size=16))
        network.left = writes
        if writes < 3:  # file, sidecar, mark
            with pytest.raises(StoreError, match="no route"):
                store.sender.send()
            assert store.sender.waiting() != []
        network.left = 10**9
        reader = machine(network, tmp_path / f"r{writes}")
        assert set(reader.episode_ids()) <= {"a"}
        store.sender.send()
        assert reader.find("a").file_sha256 == committed.file_sha256
        assert store.sender.waiting() == []
        assert verify(reader).problems == ()


def test_an_id_that_another_robot_has_taken_in_the_meantime_goes_to_quarantine(
    lab: BucketStore, network: Network, tmp_path: Path
) -> None:
    other = machine(network, tmp_path / "other")
    other.writable.append(make_episode("a", image_size=24))
    append_and_send(lab, "a")
    other.sender.send()
    assert other.find("a").file_sha256 == lab.find("a").file_sha256
    assert [entry.episode_id for entry in other.quarantined()[0]] == ["a"]
    with pytest.raises(StoreError, match="expected an id that no episode"):
        other.begin(make_episode("a").header)


def test_damage_in_the_bucket_is_named_and_never_read(lab: BucketStore, network: Network) -> None:
    append_and_send(lab, "a")
    snapshot = lab.take_snapshot()
    key = next(fact.key for fact in network.list("episodes/") if fact.key.endswith(".mcap"))
    data = bytearray(network.get(key))
    data[len(data) // 2] ^= 1
    network.put(key, bytes(data))
    with pytest.raises(EpisodeDamaged, match="has sha256"):
        lab.read_entry(snapshot.entries[0])
    assert len(verify(lab).problems) == 1
    network.delete(key)
    with pytest.raises(EpisodeDamaged, match="is gone"):
        lab.read("a")


def test_recover_puts_the_spool_right(lab: BucketStore) -> None:
    writer = lab.begin(make_episode("a", image_size=16).header)
    writer.add_step(make_episode("a", image_size=16).steps[0])
    del writer
    assert recover(lab, settle_s=0.0).quarantined != []
    assert [entry.episode_id for entry in lab.quarantined()[0]] == ["a"]


def test_a_lost_mirror_is_made_again(lab: BucketStore, network: Network, tmp_path: Path) -> None:
    import shutil

    append_and_send(lab, "a")
    before = facts_of(lab)
    shutil.rmtree(tmp_path / "lab" / "mirror")
    assert facts_of(machine(network, tmp_path / "lab")) == before


def test_a_bucket_that_holds_other_things_or_overwrites_is_refused(network: Network, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a validation store"):
        open_store_in(network, tmp_path / "x")
    network.put("photos/cat.jpg", b"cat")
    with pytest.raises(StoreError, match="is no store"):
        open_store_in(network, tmp_path / "x", create=True)

    class Overwriting(ObjectBlobs):
        def put_if_absent(self, key: str, data: bytes) -> bool:
            self.put(key, data)
            return True

    careless = Overwriting(obstore.store.MemoryStore(), "s3://careless/lab")
    with pytest.raises(StoreError, match="ignores If-None-Match"):
        open_store_in(careless, tmp_path / "y", create=True)


@pytest.mark.parametrize("location", ["s3://", "s3://UPPER/lab", "s3://b/../up", "s3:/x", "s3://bucket/.hidden"])
def test_a_location_that_is_no_bucket_is_refused(location: str) -> None:
    with pytest.raises(StoreError):
        open_bucket(location)


def test_a_place_stays_the_same_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location(Path("s3://robots/lab/")) == "s3://robots/lab"
    assert absolute_location("store") == str(tmp_path / "store")
