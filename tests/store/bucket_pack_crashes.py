"""`opc store pack --drop` on a bucket, killed at random moments while a robot records into it.

Run many with `python -m tests.store.bucket_pack_crashes --kills 200`; it starts the S3 server of `s3_server`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from opc_ros.store import open_store, recover, verify
from opc_ros.store.bucket_store import SPOOL_VARIABLE, BucketStore
from opc_ros.store.packing import pack
from tests.store.bucket_crashes import Recorder
from tests.store.killing import KilledProcess
from tests.store.s3_server import BUCKET, CREDENTIALS, run_server

LONGEST_S = 0.4  # a shard of a few episodes, fetched, put, fetched again and its originals removed
SHARD_BYTES = 40_000

ROUND = 10  # kills; the store grows with each


@dataclass(frozen=True)
class BucketPackOutcome:
    """What was found after the last kill."""

    kills: int
    acknowledged: int  # commits that returned
    lost: tuple[str, ...]  # of the acknowledged ones: not read back from the bucket as committed
    shards: int
    dropped: int  # originals that were gone before the last, undisturbed run
    unfinished: int  # kills that left a shard without its index
    doubled: int  # kills that left an original beside a committed shard that contains it
    problems: tuple[str, ...]  # from `verify`, by a machine that has seen nothing before


def pack_forever(location: str, spool: str, told: str) -> None:
    """Runs in a process of its own, until it is killed."""
    os.environ[SPOOL_VARIABLE] = spool
    store = open_store(location)
    with open(told, "ab", buffering=0) as file:
        file.write(b"begun\n")
    while True:
        pack(store, is_dropping=True, is_today_packed=True, shard_bytes=SHARD_BYTES)


def crash_bucket_packers(address: str, folder: Path, *, kills: int, seed: int) -> BucketPackOutcome:
    """Kill the packer and start the next, and now and then the recorder; at the end pack and check everything."""
    rng = random.Random(seed)
    location = f"s3://{BUCKET}/packed-{seed}"
    moment = threading.Event()
    unfinished = doubled = 0
    with mock.patch.dict(os.environ, {**CREDENTIALS, "AWS_ENDPOINT_URL": address}):
        reader = _open_on(folder / "reader", location, create=True)
        recorder = Recorder(location, folder, "robot0")
        recorder.start()
        packer = KilledProcess(pack_forever, (location, str(folder / "packer")), folder / "packer.told")
        packer.start()
        for _ in range(kills):
            moment.wait(rng.uniform(0.0, LONGEST_S))  # the random moment; nothing is waited for
            packer.kill()
            if rng.random() < 0.2:
                recorder.kill()
                recorder.start()
            keys = {fact.key for fact in reader.contents.blobs.list()}
            unfinished += any(key.startswith("shards/") and key.replace(".mcap", ".json") not in keys for key in keys)
            reader.catalogue.refresh()
            doubled += any(_is_packed(reader, key) for key in keys if key.endswith(".mcap"))
            packer.start()
        packer.kill()
        recorder.kill()
        acknowledged = recorder.acknowledged()
        last = _open_on(recorder.spool, location)
        recover(last, settle_s=0.0)
        last.sender.send()
        keys = {fact.key for fact in reader.contents.blobs.list("episodes/")}
        dropped = sum(key.endswith(".json") and key.replace(".json", ".mcap") not in keys for key in keys)
        pack(last, is_dropping=True, is_today_packed=True)
        found = {episode.id: episode.file_sha256 for episode in reader.episodes()}
        other = _open_on(folder / "other", location)
        return BucketPackOutcome(
            kills=kills + 2,
            acknowledged=len(acknowledged),
            lost=tuple(
                name for name, sha in acknowledged.items() if found.get(name) != sha or reader.read(name).id != name
            ),
            shards=sum(fact.key.endswith(".mcap") for fact in reader.contents.blobs.list("shards/")),
            dropped=dropped,
            unfinished=unfinished,
            doubled=doubled,
            problems=verify(other, is_decoding=True).problems,
        )


def _open_on(spool: Path, location: str, *, create: bool = False) -> BucketStore:
    """As another machine would."""
    with mock.patch.dict(os.environ, {SPOOL_VARIABLE: str(spool)}):
        store = open_store(location, create=create)
    assert isinstance(store, BucketStore)
    return store


def _is_packed(reader: BucketStore, key: str) -> bool:
    folder, _, name = key.rpartition("/")
    if not folder.startswith("episodes/"):
        return False
    place = reader.catalogue.locate(name.removesuffix(".mcap"), is_fresh=False)
    return place is not None and reader.contents.shards.of(place.home).has_id(place.episode_id)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seed, done = arguments.seed, 0
    with run_server() as address:
        while done < arguments.kills:
            kills = min(ROUND, arguments.kills - done)
            with tempfile.TemporaryDirectory() as folder:
                outcome = crash_bucket_packers(address, Path(folder), kills=kills, seed=seed)
            done += outcome.kills
            seed += 1
            print(f"{done} kills; this round: {outcome}", flush=True)


if __name__ == "__main__":
    main()
