"""`opc store verify` and `recover`: check that everything is as it was committed, and repair it."""

from __future__ import annotations

import argparse
import dataclasses
import json

from opc_ros.cli.progress_bar import progress_bar
from opc_ros.cli.store_arguments import Verbs, add_verb, open_existing

VERIFY_EXAMPLES = """examples:
  opc store verify
  opc store verify --decode --json

Exit 0 when the store holds exactly what was committed, 1 otherwise."""

RECOVER_EXAMPLES = """examples:
  opc store recover
  opc store recover --quick

Whole episodes that a crash kept from being committed are committed; incomplete and damaged ones go to quarantine with
their reason. Episodes that a recorder is writing are left alone, so it may run at any time."""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verify = add_verb(verbs, "verify", help="check every file against its hash", examples=VERIFY_EXAMPLES)
    verify.add_argument("--decode", action="store_true", help="decode every image too")
    verify.set_defaults(run=run_verify)

    recover = add_verb(verbs, "recover", help="repair a store after a crash", examples=RECOVER_EXAMPLES)
    recover.add_argument("--quick", action="store_true", help="trust committed files of the right size")
    recover.add_argument(
        "--settle",
        type=float,
        default=60.0,
        metavar="S",
        help="without file locks: a file unchanged for this many seconds is abandoned (default 60)",
    )
    recover.set_defaults(run=run_recover)


def run_verify(arguments: argparse.Namespace) -> int:
    from opc_ros.store import verify

    store = open_existing(arguments)
    with progress_bar("verifying", is_shown=not arguments.json) as report:
        found = verify(store, is_decoding=arguments.decode, report=report)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(found), indent=2))
    else:
        for problem in found.problems:
            print(problem)
        decoded = f", {found.frames_decoded} images decoded" if arguments.decode else ""
        running = f", {found.running} being written" if found.running else ""
        verdict = f"{len(found.problems)} problems" if found.problems else "all as committed"
        print(f"{found.episodes} episodes, {found.bytes_read / 1e6:.1f} MB hashed{decoded}{running}: {verdict}")
    return int(bool(found.problems))


def run_recover(arguments: argparse.Namespace) -> int:
    from opc_ros.store import recover

    store = open_existing(arguments)
    with progress_bar("recovering", is_shown=not arguments.json) as report:
        done = recover(store, settle_s=arguments.settle, is_quick=arguments.quick, report=report)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(done), indent=2))
        return 0
    for what, lines in (
        ("completed", done.completed),
        ("quarantined", done.quarantined),
        ("removed", done.removed),
        ("set aside", done.set_aside),
        ("being written", done.running),
    ):
        for line in lines:
            print(f"{what}: {line}")
    if done.is_clean:
        print("nothing to recover")
    return 0
