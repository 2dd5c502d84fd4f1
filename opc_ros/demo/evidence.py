"""The evidence of the demo's first permitted request as one file, checked as an outsider would check it."""

from __future__ import annotations

import time

from opc_ros.demo.lab import shorten
from opc_ros.demo.plan import DemoPlan
from opc_ros.demo.running import Ran
from opc_ros.deployment.evidence_bundle import export_evidence
from opc_ros.deployment.evidence_check import verify_evidence
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.people import load_people
from opc_ros.durable import replace_file


def export_evidence_of_best(plan: DemoPlan, ran: Ran) -> list[str]:
    """Write and verify the file; reports in one line, or not at all if no candidate ran."""
    if not ran.tried:
        return []
    request_id = str(max(ran.tried, key=lambda request: int(request["real"]["trials"]))["id"])
    folder = DeploymentFolder(plan.folder / "deployment")
    path = plan.folder / f"evidence-{request_id}.json"
    with folder.look() as queue:
        text = export_evidence(
            queue,
            folder.audit_log,
            request_id,
            plan.ranking.resolve().parent,
            folder.keys,
            folder.signer(),
            time.time_ns(),
        )
    replace_file(path, text.encode() + b"\n")
    report = verify_evidence(text, load_trusted_keys(folder.keys), load_people(folder.keys))
    state = "verified" if report.is_whole else f"NOT in order: {report.problems[0]}"
    return [
        f"  evidence of request {request_id}: {report.envelopes} signed documents and {report.entries} lines of the "
        f"audit log with proofs, {state}: {shorten(path)}"
    ]
