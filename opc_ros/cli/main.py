"""The `opc` command: parse, call one verb, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sqlite3
import sys
from collections.abc import Sequence

from opc_ros.cli.task_help import complete_help
from opc_ros.errors import OpcError

# Each is a module in this package with add_parser(verbs); what it runs is imported only when it runs.
VERBS: tuple[str, ...] = (
    "doctor",
    "status",
    "demo",
    "up",
    "store",
    "arm",
    "collect",
    "train",
    "evaluate",
    "candidate",
    "score",
    "security",
    "rank",
    "ranking",
    "gate",
    "keys",
    "people",
    "permit",
    "deploy",
    "stop",
    "audit",
    "evidence",
    "console",
    "notify",
    "migrate",
    "reproduce",
    "completion",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except OpcError as error:
        print(f"opc: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, sqlite3.OperationalError) as error:
        if os.environ.get("OPC_TRACEBACK"):
            raise
        print(f"opc: {_describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("opc: interrupted", file=sys.stderr)
        return 130


def _describe(error: OSError | sqlite3.OperationalError) -> str:
    """One line about an error of the file system or a database; OPC_TRACEBACK=1 shows where it happened."""
    if isinstance(error, sqlite3.OperationalError):
        return f"database: {error}; is its folder writable?"
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


class _Version(argparse.Action):
    """Reads the version only when asked for it, because reading a package's metadata takes a while."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"opc_ros {version('opc-ros')}, Python {sys.version.split()[0]}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Each verb has a module in this package, which adds its parser and sets its `run`."""
    parser = argparse.ArgumentParser(
        prog="opc",
        description="Record grasp episodes, score candidate policies offline, let only the best onto robots.",
    )
    parser.add_argument("--version", action=_Version, help="print the version and what it runs on")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        importlib.import_module(f"opc_ros.cli.{verb}").add_parser(verbs)
    complete_help(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
