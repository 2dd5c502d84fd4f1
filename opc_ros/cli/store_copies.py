"""`opc store sync` and `backup`: checked copies of a store, which resume after an interruption."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from opc_ros.cli.progress_bar import progress_bar
from opc_ros.cli.store_arguments import Verbs, add_verb

if TYPE_CHECKING:
    from opc_ros.store.store_sync import SyncResult

SYNC_EXAMPLES = """examples:
  opc store sync /data/arm1 /lab/store          # a robot's episodes into the lab's store
  opc store sync store s3://bucket/lab          # credentials from the environment: AWS_ACCESS_KEY_ID, ...

Copies every episode, label, snapshot and tag that the target is missing, and checks each byte on the way.
Nothing is removed and only tags are overwritten; files of one name that differ are reported and left alone. Interrupt
it at any time: the next run resumes. Exit 1 if something conflicts or is damaged."""

BACKUP_EXAMPLES = """examples:
  opc store backup /backups/store               # again tomorrow: copies only what is new
  opc store restore --from /backups/store --store /data/store

Copies what is new, then reads the whole copy and compares every file with its hash. `restore --from` is the way back:
into a new folder, or into a store that lost files, where it brings back what is missing."""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    sync = add_verb(verbs, "sync", help="copy over what another store is missing", examples=SYNC_EXAMPLES)
    sync.add_argument("source", help="a store: folder or s3://bucket/name")
    sync.add_argument("target", help="another store; created if it does not exist")
    sync.set_defaults(run=run_sync)

    backup = add_verb(verbs, "backup", help="copy a store and verify the copy", examples=BACKUP_EXAMPLES)
    backup.add_argument("target", help="folder or s3://bucket/name")
    backup.set_defaults(run=run_backup)


def run_sync(arguments: argparse.Namespace) -> int:
    from opc_ros.store.backup import sync_stores

    with progress_bar("copying", is_shown=not arguments.json) as report:
        done = sync_stores(arguments.source, arguments.target, report=report)
    return _tell(done, {}, is_json=arguments.json)


def run_backup(arguments: argparse.Namespace) -> int:
    return _copy(str(arguments.store), arguments.target, is_json=arguments.json)


def restore_backup(arguments: argparse.Namespace) -> int:
    """Run `opc store restore --from`."""
    return _copy(arguments.backup, str(arguments.store), is_json=arguments.json)


def _copy(source: str, target: str, *, is_json: bool) -> int:
    from opc_ros.store.backup import copy_and_verify

    with progress_bar("copying", is_shown=not is_json) as report:
        done = copy_and_verify(source, target, report=report)
    return _tell(done.copied, dataclasses.asdict(done.verified), is_json=is_json)


def _tell(done: SyncResult, verified: dict[str, Any], *, is_json: bool) -> int:
    problems = verified.get("problems", ())
    if is_json:
        document = dataclasses.asdict(done)
        print(json.dumps(document | {"verified": verified} if verified else document, indent=2))
    for line in (*done.conflicts, *done.damaged, *problems):
        print(f"opc: {line}", file=sys.stderr)
    if not is_json:
        print(
            f"copied {done.episodes} episodes and {done.others} other files, {done.bytes_copied / 1e6:.1f} MB; "
            f"{done.kept} episodes were there"
        )
        if verified:
            verdict = f"{len(problems)} problems" if problems else "all as committed"
            print(f"read back {verified['episodes']} episodes, {verified['bytes_read'] / 1e6:.1f} MB: {verdict}")
    return int(not done.is_complete or bool(problems))
