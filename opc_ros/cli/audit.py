"""`opc audit`: read and check the record of every decision, permit, override and outcome."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from opc_ros.cli.argument_types import whole_number

EXAMPLES = """examples:
  opc audit verify
  opc audit verify deployment/audit.jsonl --keys deployment/keys --witness arm1/journal.db
  opc audit verify arm1/audit.jsonl --unsigned
  opc audit show --kind override --last 20

An audit log cut off at its end is still an intact chain. So `verify` also compares it with what others remember: the
head file beside it, the heads that robots have signed with their results, and the journals of robots (--witness),
which keep the head that came with their permits."""


_WHICH = "default: that of deployment/"


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "audit",
        help="read and check the record of decisions, permits and outcomes",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    verify = actions.add_parser("verify", help="check that no line was changed, added or cut off")
    verify.add_argument("audit_log", metavar="AUDIT_LOG", type=Path, nargs="?", help=_WHICH)
    verify.add_argument("--keys", type=Path, help="folder with the trusted public keys; default: keys beside it")
    verify.add_argument("--unsigned", action="store_true", help="a robot's own audit log, whose lines are not signed")
    verify.add_argument("--witness", type=Path, action="append", default=[], help="journal.db of a robot")
    verify.add_argument("--json", action="store_true", help="for machines")
    verify.set_defaults(run=run_verify)
    show = actions.add_parser("show", help="print entries")
    show.add_argument("audit_log", metavar="AUDIT_LOG", type=Path, nargs="?", help=_WHICH)
    show.add_argument("--kind", help="only entries of this kind")
    show.add_argument("--last", type=whole_number(0), default=0, metavar="N", help="only the last N")
    show.add_argument("--json", action="store_true", help="one JSON object a line")
    show.set_defaults(run=run_show)


def run_verify(arguments: argparse.Namespace) -> int:
    import dataclasses

    from opc_ros.deployment.audit_check import check_audit_log
    from opc_ros.deployment.audit_cosigned import check_cosigned
    from opc_ros.deployment.journal import read_audit_witness
    from opc_ros.deployment.keys import load_trusted_keys
    from opc_ros.deployment.people import load_people

    audit_log = _find(arguments)
    keys = None if arguments.unsigned else load_trusted_keys(arguments.keys or audit_log.parent / "keys")
    report = check_audit_log(audit_log, keys, [read_audit_witness(path) for path in arguments.witness])
    cosigned: dict[str, int] = {}
    if not arguments.unsigned and report.is_whole:
        cosigned, problems = check_cosigned(audit_log, load_people(arguments.keys or audit_log.parent / "keys"))
        report = dataclasses.replace(report, problems=(*report.problems, *problems))
    if arguments.json:
        document: dict[str, object] = {
            "entries": report.head.entries,
            "hash": report.head.hash,
            "is_whole": report.is_whole,
        }
        document["cosigned"] = cosigned
        print(json.dumps(document | {"problems": report.problems, "notes": report.notes}))
        return 0 if report.is_whole else 1
    for line in (*report.notes, *report.problems[:20]):
        print(line, file=sys.stderr)
    if len(report.problems) > 20:
        print(f"and {len(report.problems) - 20} more problems", file=sys.stderr)
    state = "whole" if report.is_whole else "DAMAGED"
    print(f"{audit_log}: {state}, {report.head.entries} entries, head {report.head.hash[:16] or '-'}")
    for robot, count in sorted(cosigned.items()):
        print(f"robot {robot} has cosigned its head {count} times")
    return 0 if report.is_whole else 1


def _find(arguments: argparse.Namespace) -> Path:
    from opc_ros.deployment.audit_log import find_audit_log

    return arguments.audit_log or find_audit_log(Path("deployment"))


def run_show(arguments: argparse.Namespace) -> int:
    import dataclasses
    from datetime import UTC, datetime

    from opc_ros.deployment.audit_check import read_audit_log
    from opc_ros.errors import DeploymentError

    path = _find(arguments)
    everything = list(read_audit_log(path))
    entries = [entry for entry in everything if arguments.kind in (None, entry.kind)]
    if everything and not entries:
        kinds = ", ".join(sorted({entry.kind for entry in everything}))
        raise DeploymentError(f"{path}: has no entry of kind {arguments.kind!r}, only of {kinds}")
    for entry in entries[-arguments.last :] if arguments.last > 0 else entries:
        if arguments.json:
            print(json.dumps(dataclasses.asdict(entry)))
            continue
        moment = datetime.fromtimestamp(entry.at_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
        body = " ".join(f"{name}={json.dumps(value)}" for name, value in entry.body.items() if name != "change")
        print(f"{entry.n:6d}  {moment}  {entry.kind:<16} {body}")
    return 0
