"""Stores on a real S3 server behind a bad network; recorders and packers killed at any moment lose nothing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opc_ros.errors import StoreError
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import open_store, verify
from opc_ros.store.bucket_store import local_folder
from opc_ros.store.object_blobs import open_bucket
from tests.store.blobs_contract import check_contract
from tests.store.bucket_crashes import crash_recorders
from tests.store.bucket_pack_crashes import crash_bucket_packers
from tests.store.grasps import make_episode
from tests.store.s3_server import BUCKET, CREDENTIALS, FaultyProxy, run_proxy, run_server

pytest.importorskip("obstore")


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
