"""`opc store pack`: pack episodes into shards, for reading many at the disk's speed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from opc_ros.cli.progress_bar import progress_bar
from opc_ros.cli.store_arguments import Verbs, add_verb, open_existing
from opc_ros.cli.store_room import parse_size

EXAMPLES = """examples:
  opc store pack                                 # every day that is over; originals stay
  opc store pack --drop                          # and remove the originals
  opc store pack --robot arm1 --today --shard-size 250M

A shard is an MCAP file below shards/ with the files of up to 10,000 episodes of one robot and day, byte for byte, and
an index beside it. Digests, snapshots, labels and scores stay what they are. An original goes only once its shard is
on the disk, read back and compared. Interrupt it at any time: the next run resumes. Exit 1 where
episodes are damaged, which stay as they are."""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    pack = add_verb(verbs, "pack", help="pack episodes into shards: few files, fast to read", examples=EXAMPLES)
    pack.add_argument("--robot", action="append", default=[], metavar="NAME", help="only these robots")
    pack.add_argument("--today", action="store_true", help="include the current day (UTC)")
    pack.add_argument("--drop", action="store_true", help="remove each episode's own file once a shard has it")
    pack.add_argument(
        "--shard-size", type=parse_size, default=100_000_000, metavar="SIZE", help="size of one shard (default 100M)"
    )
    pack.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.store.packing import pack

    store = open_existing(arguments)
    with progress_bar("packing", is_shown=not arguments.json) as report:
        done = pack(
            store,
            robots=tuple(arguments.robot),
            is_today_packed=arguments.today,
            is_dropping=arguments.drop,
            shard_bytes=arguments.shard_size,
            report=report,
        )
    if arguments.json:
        print(json.dumps(dataclasses.asdict(done), indent=2))
        return int(bool(done.damaged))
    for line in done.damaged:
        print(f"opc: {line}", file=sys.stderr)
    print(
        f"packed {done.episodes} episodes, {done.bytes_packed / 1e6:.1f} MB, into {done.shards} shards; "
        f"{done.already} were packed"
    )
    if arguments.drop:
        print(f"removed {done.dropped} files, {done.dropped_bytes / 1e6:.1f} MB, that shards hold")
    if done.left_today:
        print(f"left {done.left_today} episodes of today; --today packs them too")
    return int(bool(done.damaged))
