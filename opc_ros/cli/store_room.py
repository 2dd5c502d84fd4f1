"""`opc store gc` and `quota`: how much space a store takes, and deleting what nothing needs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re

from opc_ros.cli.store_arguments import Verbs, add_verb, open_existing

GC_EXAMPLES = """examples:
  opc store gc --trial                           # what would be deleted
  opc store gc --quarantine-older-than 90        # days

Episodes, labels and snapshots always stay. It deletes parts of snapshots that were never finished, shards whose
episodes have all left the store, tables that the catalogue no longer lists and, only if asked, quarantine older than
that many days."""

QUOTA_EXAMPLES = """examples:
  opc store quota                                # usage; exit 1 if a limit is exceeded
  opc store quota --limit 500G --warn-at 80
  opc store quota --robot arm1 --limit 50G       # 0 lifts a limit

A quota only warns: a recorder never loses an episode to it. `opc store stats`
prints the warnings too."""

_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[KMGT]?)B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    gc = add_verb(verbs, "gc", help="delete unreferenced files and, if asked, old quarantine", examples=GC_EXAMPLES)
    gc.add_argument(
        "--quarantine-older-than", type=parse_days, metavar="DAYS", help="also quarantine older than this many days"
    )
    gc.add_argument("--trial", action="store_true", help="only print what would be deleted")
    gc.set_defaults(run=run_gc)

    quota = add_verb(verbs, "quota", help="show or set the size above which to warn", examples=QUOTA_EXAMPLES)
    quota.add_argument("--limit", type=parse_size, metavar="SIZE", help="set it, such as 500G or 2T; 0 lifts it")
    quota.add_argument("--robot", metavar="NAME", help="for this robot's episodes instead of the whole store")
    quota.add_argument(
        "--warn-at", type=float, metavar="PERCENT", help="warn above this percentage of the limit (default 80)"
    )
    quota.set_defaults(run=run_quota)


def run_gc(arguments: argparse.Namespace) -> int:
    from opc_ros.store.garbage import collect_garbage

    store = open_existing(arguments)
    found = collect_garbage(store, quarantine_older_than_days=arguments.quarantine_older_than, is_trial=arguments.trial)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(found), indent=2))
        return 0
    verb = "would remove" if arguments.trial else "removed"
    for name in (*found.quarantined, *found.parts, *found.shards, *found.tables):
        print(f"{verb} {name}")
    print(f"{verb} {found.freed_bytes / 1e6:.1f} MB")
    return 0


def run_quota(arguments: argparse.Namespace) -> int:
    from opc_ros.errors import StoreError
    from opc_ros.store.quota import measure_usage, read_quota, write_quota

    store = open_existing(arguments)
    if arguments.robot is not None and arguments.limit is None:
        raise StoreError(f"--robot {arguments.robot}: no --limit given; without --robot all limits are shown")
    if arguments.limit is not None or arguments.warn_at is not None:
        quota = read_quota(store)
        try:
            if arguments.warn_at is not None:
                quota = dataclasses.replace(quota, warn_share=arguments.warn_at / 100)
            if arguments.limit is not None and arguments.robot is not None:
                robots = {name: limit for name, limit in quota.robots.items() if name != arguments.robot}
                robots |= {arguments.robot: arguments.limit} if arguments.limit else {}
                quota = dataclasses.replace(quota, robots=robots)
            elif arguments.limit is not None:
                quota = dataclasses.replace(quota, total_bytes=arguments.limit)
        except ValueError as error:
            raise StoreError(f"quota: {error}") from error
        write_quota(store, quota)
    usages = measure_usage(store)
    if arguments.json:
        print(json.dumps([{**dataclasses.asdict(usage), "is_over": usage.is_over} for usage in usages], indent=2))
    else:
        for usage in usages:
            print(f"{usage}{': over its limit' if usage.is_over else ': nearly full' if usage.is_near else ''}")
        if not usages:
            print("no quota is set; `opc store quota --limit 500G` sets one")
    return int(any(usage.is_over for usage in usages))


def parse_size(text: str) -> int:
    """A size in bytes; K, M, G and T are powers of a thousand."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, expected for example 500G")
    return round(float(match["number"]) * _UNITS[match["unit"].upper()])


def parse_days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0.0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days, expected for example 90")
    return days
