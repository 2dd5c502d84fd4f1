"""A store in a bucket: the same as one in a folder, for several machines, over a network that fails."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import Store, open_store, recover, verify
from opc_ros.store.blobs import BlobFacts, Blobs, FolderBlobs
from opc_ros.store.bucket_store import BucketStore, local_folder, open_store_in
from opc_ros.store.locations import absolute_location
from opc_ros.store.object_blobs import ObjectBlobs, open_bucket
from opc_ros.store.packing import pack
from opc_ros.store.sealed import decode_document, version_of
from opc_ros.store.store_sync import sync_blobs
from tests.store.bucket_crashes import crash_recorders
from tests.store.bucket_pack_crashes import crash_bucket_packers
from tests.store.grasps import FAILURE, SUCCESS, make_episode
from tests.store.s3_server import BUCKET, CREDENTIALS, FaultyProxy, run_proxy, run_server
from tests.store.test_copies import check_contract, facts_of, fill

obstore = pytest.importorskip("obstore")


class Network(ObjectBlobs):
    """Objects in this process's memory, behind a network that counts requests and can be cut after some of them."""

    def __init__(self) -> None:
        super().__init__(obstore.store.MemoryStore(), "s3://memory/lab")
        self.left = 10**9  # writes and removals
        self.is_up = True
        self.lock = threading.Lock()
        self.lists = 0
        self.gets = 0

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._count()
        return super().put_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._count()
        super().put(key, data)

    def get(self, key: str) -> bytes:
        self._check()
        self.gets += 1
        return super().get(key)

    def list(self, prefix: str = "") -> Iterator[BlobFacts]:
        self._check()
        self.lists += 1
        return super().list(prefix)

    def delete(self, key: str) -> None:
        self._count()
        super().delete(key)

    def _count(self) -> None:
        with self.lock:
            self.left -= 1
            self._check()

    def _check(self) -> None:
        if self.left < 0 or not self.is_up:
            raise StoreError("no route to the bucket")


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def lab(network: Network, tmp_path: Path) -> BucketStore:
    return open_store_in(network, tmp_path / "lab", create=True)


def machine(blobs: Blobs, folder: Path) -> BucketStore:
    return open_store_in(blobs, folder)


def append_and_send(store: BucketStore, name: str, **more: object) -> None:
    store.append(make_episode(name, image_size=16, **more))  # type: ignore[arg-type]
    store.sender.send()


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


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with run_server() as address:
        yield address


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyProxy]:
    with run_proxy(server) as proxy:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy.address}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPC_SPOOL", str(tmp_path / "spool"))
        yield proxy


def test_a_server_keeps_the_contract_of_blobs(proxy: FaultyProxy) -> None:
    check_contract(open_bucket(f"s3://{BUCKET}/contract"))


FAULTS = ("refuse", "slow", "cut request", "lose answer", "cut answer")


@pytest.mark.parametrize("fault", FAULTS)
def test_over_a_bad_network_a_commit_arrives_whole_or_waits(
    fault: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    location = f"s3://{BUCKET}/{fault.replace(' ', '-')}"
    committed = {}
    with open_store(Path(location), create=True) as store:  # a Path drops a slash
        for number in range(3):
            if number == 1:
                proxy.faults += [(method, fault) for method in ("PUT", "PUT", "PUT", "GET", "GET")]
            episode = make_episode(f"e{number}", seed=number, image_size=16)
            committed[f"e{number}"] = store.append(episode).file_sha256
    assert proxy.seen  # the network did fail
    monkeypatch.setenv("OPC_SPOOL", str(tmp_path / "another machine"))
    reader = open_store(location)
    assert {episode.id: episode.file_sha256 for episode in reader.episodes()} == committed
    assert verify(reader, is_decoding=True).problems == ()


def test_another_process_reads_a_snapshot_of_a_bucket_without_a_shared_folder(
    proxy: FaultyProxy, tmp_path: Path
) -> None:
    with open_store(f"s3://{BUCKET}/far", create=True) as store:
        for number in range(3):
            store.append(make_episode(f"e{number}", seed=number, image_size=16))
        snapshot = store.take_snapshot(tag="week-46")
    source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
    program = (
        "import pickle, sys; source = pickle.loads(sys.stdin.buffer.read()); "
        "print(source.snapshot_id, *(len(source.read(ref).steps) for ref in source.refs))"
    )
    far = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(source),
        env={**os.environ, "OPC_SPOOL": str(tmp_path / "another machine")},
        capture_output=True,
        check=True,
    )
    assert far.stdout.split() == [snapshot.id.encode(), b"3", b"3", b"3"]


def test_a_place_stays_the_same_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location(Path("s3://robots/lab/")) == "s3://robots/lab"
    assert absolute_location("store") == str(tmp_path / "store")


def test_credentials_appear_in_no_message_and_no_file(proxy: FaultyProxy, tmp_path: Path) -> None:
    location = f"s3://{BUCKET}/secret"
    with open_store(location, create=True) as store:
        store.append(make_episode("a", image_size=16))
        store.take_snapshot(tag="t")
    proxy.faults += [("GET", "refuse")] * 50
    with pytest.raises(StoreError) as told:
        open_bucket(location).get("store.json")
    assert "a-secret-of-tests" not in str(told.value)
    assert "a-key-of-tests" not in str(told.value)
    files = [path for path in (tmp_path / "spool").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"of-tests" in path.read_bytes()]
    assert "of-tests" not in str(local_folder(location))


def test_recorders_killed_at_any_moment_lose_no_acknowledged_commit(server: str, tmp_path: Path) -> None:
    outcome = crash_recorders(server, tmp_path, kills=3, robots=2, seed=7)
    assert outcome.acknowledged > 0
    assert outcome.lost == ()
    assert outcome.problems == ()


def test_packers_of_a_bucket_killed_at_any_moment_lose_nothing(server: str, tmp_path: Path) -> None:
    outcome = crash_bucket_packers(server, tmp_path, kills=4, seed=3)
    assert outcome.acknowledged > 0
    assert outcome.shards > 0
    assert outcome.lost == ()
    assert outcome.problems == ()


def test_of_many_conditional_puts_at_once_exactly_one_wins(proxy: FaultyProxy) -> None:
    bucket = open_bucket(f"s3://{BUCKET}/race")
    for number in range(10):
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda who: bucket.put_if_absent(f"key-{number}", b"%d" % who), range(8)))  # noqa: B023
        assert sum(won) == 1
        assert bucket.get(f"key-{number}") == b"%d" % won.index(True)
