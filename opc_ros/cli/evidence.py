"""`opc evidence`: everything that led to a decision in one file, and a check of such a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

EXAMPLES = """examples:
  opc evidence export 3f2a11bc --output evidence.json
  opc evidence verify evidence.json --keys deployment/keys

The file holds the request, people's statements, the ranking with the scorer's seal, the gate's verdict and the race's
result as in-toto statements, permits, results that robots signed, and the lines of the audit log with proofs that they
are in it. All signatures are DSSE envelopes with Ed25519: securesystemslib verifies them without opc_ros."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "evidence",
        help="export what led to a decision as one file that others can verify",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    export = actions.add_parser("export", help="write the evidence of one request")
    export.add_argument("request", metavar="REQUEST", help="its id, as `opc deploy status` shows it")
    export.add_argument("--output", type=Path, metavar="FILE", help="default: evidence-REQUEST.json")
    export.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")
    export.add_argument("--ranking", type=Path, default=Path("scores/published/ranking.json"), help="published ranking")
    export.add_argument("--json", action="store_true", help="for machines")
    export.set_defaults(run=run_export)
    verify = actions.add_parser("verify", help="check every signature and proof in such a file")
    verify.add_argument("file", metavar="FILE", type=Path)
    verify.add_argument("--keys", type=Path, default=Path("deployment/keys"), help="whom to trust: public keys, people")
    verify.add_argument("--json", action="store_true", help="for machines")
    verify.set_defaults(run=run_verify)


def run_export(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.evidence_bundle import export_evidence
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.durable import replace_file

    folder = DeploymentFolder(arguments.state)
    with folder.look() as queue:
        text = export_evidence(
            queue,
            folder.audit_log,
            arguments.request,
            arguments.ranking.resolve().parent,
            folder.keys,
            folder.signer(),
            time.time_ns(),
        )
    output = arguments.output or Path(f"evidence-{arguments.request}.json")
    replace_file(output, text.encode() + b"\n")
    bundle = json.loads(text)
    counts = {"envelopes": len(bundle["envelopes"]), "entries": len(bundle["entries"])}
    if arguments.json:
        print(json.dumps({"file": str(output)} | counts))
    else:
        print(f"{output}: {counts['envelopes']} signed documents, {counts['entries']} lines of the audit log")
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.evidence_check import verify_evidence
    from opc_ros.deployment.keys import load_trusted_keys
    from opc_ros.deployment.people import load_people
    from opc_ros.documents import read_bytes
    from opc_ros.errors import DeploymentError

    text = read_bytes(arguments.file, error=DeploymentError).decode("utf-8", errors="replace")
    report = verify_evidence(text, load_trusted_keys(arguments.keys), load_people(arguments.keys))
    if arguments.json:
        found = {"request_id": report.request_id, "envelopes": report.envelopes, "entries": report.entries}
        print(json.dumps(found | {"is_whole": report.is_whole, "problems": report.problems}))
        return 0 if report.is_whole else 1
    for problem in report.problems[:20]:
        print(problem, file=sys.stderr)
    state = "whole" if report.is_whole else "NOT what was signed"
    print(
        f"{arguments.file}: {state}: request {report.request_id}, {report.envelopes} signed documents, "
        f"{report.entries} lines of the audit log"
    )
    return 0 if report.is_whole else 1
