"""Check that shards match their names and indexes, in a folder or a bucket, and rebuild indexes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from opc_ros.durable import replace_file, sync_folder
from opc_ros.episode import check_name
from opc_ros.errors import EpisodeError, StoreError
from opc_ros.store.blobs import Blobs
from opc_ros.store.layout import FLAT, JSON, MCAP, Home, StoreLayout, names_in
from opc_ros.store.shard_format import PackedEpisode, ShardIndex, decode_index, encode_index, scan_shard

PREFIX = "shards/"


def check_shards(blobs: Blobs) -> Iterator[str]:
    """One line for each problem; reads every byte."""
    keys = [fact.key for fact in blobs.list(PREFIX) if not fact.key.endswith(".damaged")]
    names = set(keys)
    for key in keys:
        if key.endswith(MCAP):
            if key.removesuffix(MCAP) + JSON not in names:
                yield f"shard {key}: has no index: `opc store recover` makes one, in a bucket the next `opc store pack`"
        elif not key.endswith(JSON):
            yield f"{key}: does not belong here"
        elif key.removesuffix(JSON) + MCAP not in names:
            yield f"shard {key.removesuffix(JSON)}{MCAP}: is gone, only its index is left"
        else:
            yield from _check_shard(blobs, key)


def read_index(blobs: Blobs, key: str) -> ShardIndex:
    """Read the index under a key; raises StoreError if it is not of that shard and folder."""
    index = decode_index(blobs.get(key), where=key)
    folder = f"{PREFIX}{index.home.robot}/{index.home.day or FLAT}"
    if key != f"{folder}/{index.sha256}{JSON}":
        raise StoreError(f"{key}: is the index of {folder}/{index.sha256}, expected of its own name")
    return index


def find_wrong(data: bytes, index: ShardIndex) -> list[str]:
    """Ids of the episodes whose bytes differ from what was committed."""
    view = memoryview(data)
    return [
        one.id
        for one in index.episodes
        if hashlib.sha256(view[one.offset : one.offset + one.length]).hexdigest() != one.file_sha256
    ]


def refuse_unlike(data: bytes, index: ShardIndex, *, where: str) -> None:
    """Check a new shard before it counts, on its bytes as read back."""
    if hashlib.sha256(data).hexdigest() != index.sha256:
        raise StoreError(f"{where}: reads back differently from what was written; nothing was dropped: check the disk")
    wrong = find_wrong(data, index)
    if wrong:
        raise StoreError(
            f"{where}: episode {wrong[0]} reads back differently from what was committed; nothing was dropped"
        )


def scan_index(data: bytes, home: Home, name: str) -> ShardIndex:
    """Build an index from the content of a shard."""
    view = memoryview(data)
    episodes = []
    for episode_id, offset, length in scan_shard(view):
        try:
            check_name("episode", episode_id)
        except EpisodeError:
            continue
        digest = hashlib.sha256(view[offset : offset + length]).hexdigest()
        episodes.append(PackedEpisode(episode_id, digest, offset, length))
    return ShardIndex(home, name, len(data), tuple(episodes))


def rebuild_indexes(layout: StoreLayout) -> Iterator[str]:
    """Rebuild the index of each shard that has no readable one, from the shard's content.

    Returns a line for each. A shard with no readable content is set aside.
    """
    for robot in names_in(layout.shards):
        for folder_name in names_in(layout.shards / robot):
            home = Home(robot, "" if folder_name == FLAT else folder_name)
            folder = layout.shard_folder(home)
            names = names_in(folder)
            for name in names:
                path, index_path = folder / name, (folder / name).with_suffix(JSON)
                if not name.endswith(MCAP) or _is_readable(layout, home, index_path.name):
                    continue
                data = path.read_bytes()
                index = scan_index(data, home, path.stem)
                key = layout.key_of(path)
                if index.episodes:
                    replace_file(index_path, encode_index(index))
                    yield f"shard {key}: its index was rebuilt, with {len(index.episodes)} episodes"
                else:
                    path.rename(path.with_suffix(".damaged"))
                    sync_folder(folder)
                    yield f"shard {key}: holds nothing that can be read, and was set aside"


def _check_shard(blobs: Blobs, key: str) -> Iterator[str]:
    shard = key.removesuffix(JSON) + MCAP
    try:
        index = read_index(blobs, key)
        data = blobs.get(shard)
    except StoreError as error:
        yield f"shard {shard}: {error}"
        return
    if hashlib.sha256(data).hexdigest() != index.sha256:
        wrong = find_wrong(data, index)
        which = f"its episodes {', '.join(wrong[:10])} are damaged" if wrong else "its episodes are whole"
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        yield f"shard {shard}: was changed or damaged; {which}{more}"


def _is_readable(layout: StoreLayout, home: Home, name: str) -> bool:
    path = layout.shard_folder(home) / name
    try:
        index = decode_index(path.read_bytes(), where=str(path))
    except (OSError, StoreError):
        return False
    return (index.home, f"{index.sha256}{JSON}") == (home, name)
