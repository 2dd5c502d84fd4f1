"""`opc migrate`: bring the folders of an earlier version's lab to this one."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """examples:
  opc migrate --check          what would be done, and what opens as it is
  opc migrate                  store/, candidates/ and deployment/ below this folder
  opc migrate --candidates /data/candidates --deployment /data/deployment

Nothing is lost: old manifests and the old queue are kept beside the new ones. Running it again changes nothing."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "migrate",
        help="bring the folders of an earlier version to this one",
        description="Check store, registry, queue and audit log of an earlier version, and upgrade what has to change.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("store", "candidates", "deployment"):
        parser.add_argument(f"--{name}", type=Path, default=Path(name), help=f"default: {name}")
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import dataclasses
    import json

    from opc_ros.workflows.lab_migration import migrate_lab
    from opc_ros.workflows.lab_status import LabFolders

    folders = LabFolders(arguments.store, arguments.candidates, Path("scores"), arguments.deployment)
    lines = migrate_lab(folders, is_trial=arguments.check)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(line) for line in lines], indent=2))
    else:
        for line in lines:
            print(f"{line.what:<11}{line.state:<11}{line.detail}")
    return int(any(line.state == "failed" for line in lines))
