"""Arguments that several verbs of `opc store` share."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opc_ros.store import Selection, Store

Verbs = argparse._SubParsersAction

LABEL_SOURCES = ("episode_end", "gripper_width", "person", "import", "excluded")


def add_verb(verbs: Verbs[argparse.ArgumentParser], name: str, *, help: str, examples: str) -> argparse.ArgumentParser:
    """A parser with --store and --json."""
    parser = verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--store",
        type=Path,
        default=Path("store"),
        help="validation store: a folder or s3://bucket/name (default: ./store)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection", "each may be given several times; without any, all are taken")
    group.add_argument("--robot", action="append", default=[], metavar="NAME")
    group.add_argument("--policy", action="append", default=[], metavar="NAME", help="behaviour policy")
    group.add_argument("--object-set", action="append", default=[], metavar="NAME")
    group.add_argument("--label-source", action="append", default=[], choices=LABEL_SOURCES)
    group.add_argument("--since", type=parse_moment, metavar="WHEN", help="begun then or later, e.g. 2026-11-16T08:00")
    group.add_argument(
        "--until", type=parse_moment, metavar="WHEN", help="begun before then; times without zone are UTC"
    )


def read_selection(arguments: argparse.Namespace) -> Selection:
    from opc_ros.episode import LabelSource
    from opc_ros.store import Selection

    return Selection(
        robots=tuple(arguments.robot),
        since_ns=arguments.since,
        until_ns=arguments.until,
        object_sets=tuple(arguments.object_set),
        behaviour_policies=tuple(arguments.policy),
        label_sources=tuple(LabelSource(name) for name in arguments.label_source),
    )


def open_existing(arguments: argparse.Namespace) -> Store:
    from opc_ros.store import open_store

    return open_store(arguments.store)


def parse_moment(text: str) -> int:
    """Nanoseconds since 1970 of an ISO 8601 date or time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date, expected for example 2026-11-16T08:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000_000)


def format_moment(stamp_ns: int) -> str:
    return f"{datetime.fromtimestamp(stamp_ns / 1e9, tz=UTC):%Y-%m-%d %H:%M:%S}"
