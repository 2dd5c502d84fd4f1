"""Records in the audit log which rules are in force and since when, so that editing a rules file leaves a trace."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.documents import canonical_json, parse_json

KIND = "rules_in_force"


def note_rules(queue: Queue, gate: GateRules, scheduler: SchedulerRules, now_ns: int) -> bool:
    """Record the rules if they have changed, and return whether they have."""
    said = {"gate": asdict(gate), "scheduler": asdict(scheduler)}
    digest = hashlib.sha256(canonical_json(said, is_ascii=True).encode()).hexdigest()
    last = queue.rows("SELECT body FROM events WHERE kind = ? ORDER BY change DESC LIMIT 1", KIND)
    if last and parse_json(last[0]["body"], where="queue: event")["sha256"] == digest:
        return False
    with queue.change("rules", now_ns) as tell:
        tell(KIND, {"sha256": digest} | said)
    return True
