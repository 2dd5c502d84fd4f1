"""`opc store`: look at, maintain and exchange recorded episodes."""

from __future__ import annotations

import argparse

from opc_ros.cli import (
    store_browse,
    store_copies,
    store_exchange,
    store_pack,
    store_pin,
    store_replay,
    store_room,
    store_upkeep,
)

EXAMPLES = """examples:
  opc store list --store /data/store --robot arm1 --since 2026-11-01
  opc store show arm1-000123 --image sheet.png
  opc store label arm1-000123 success --by ada --note "held for 3 s"
  opc store snapshot --tag week-46 --object-set cups
  opc store verify
  opc store recover
  opc store backup /backups/store
  opc store export --snapshot week-46 /data/lerobot/week-46
  opc store import old.mcap --mapping mapping.yaml"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "store",
        help="look at, label, pin, check and exchange recorded episodes",
        description="Work with a validation store. Each verb has its own --help.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for module in (
        store_browse,
        store_replay,
        store_upkeep,
        store_room,
        store_pack,
        store_pin,
        store_copies,
        store_exchange,
    ):
        module.add_parsers(parts)
