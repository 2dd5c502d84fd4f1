"""`opc status`: the lab on one screen."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """examples:
  opc status
  opc status --store /data/store --json

Says where store, registry, published ranking and deployment stand, and what waits for a person.
Exit code 0 even if a part is missing; its line says how to create it."""

FOLDERS = ("store", "candidates", "scores", "deployment")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "status",
        help="store, ranking, requests and robots on one screen, and what waits for a person",
        description="Show where the lab stands, and what waits for a person.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in FOLDERS:
        parser.add_argument(f"--{name}", type=Path, default=Path(name), help=f"folder (default: ./{name})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.workflows.lab_status import LabFolders, describe_lab

    status = describe_lab(LabFolders(*(getattr(arguments, name) for name in FOLDERS)), time.time_ns())
    if arguments.json:
        print(json.dumps({"lines": status.lines, "waiting": status.waiting}))
        return 0
    for name, line in status.lines:
        print(f"{name:<11} {line}")
    print("waits for you:" if status.waiting else "nothing waits for you")
    for line in status.waiting:
        print(f"  {line}")
    return 0
