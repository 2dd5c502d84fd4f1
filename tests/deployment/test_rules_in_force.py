"""Edited rules take effect at the scheduler's next start, and the signed audit log says so."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.rules_in_force import note_rules
from tests.deployment.fleet import Fleet, make_rules

CONFIG = Path(__file__).parents[2] / "config"


def test_changed_rules_are_reported_and_unchanged_ones_are_not_reported_again(folder: Path) -> None:
    fleet = Fleet(folder, make_rules())
    fleet.start()
    assert fleet.queue is not None
    gate = load_config(CONFIG / "gate.yaml", GateRules)
    loose = dataclasses.replace(gate, approval=())
    changes = [
        note_rules(fleet.queue, rules, scheduler, fleet.clock())
        for rules, scheduler in (
            (gate, fleet.rules),
            (gate, fleet.rules),
            (loose, fleet.rules),
            (loose, make_rules(override_people=2)),
            (gate, fleet.rules),
        )
    ]
    assert changes == [True, False, True, True, True]
    told = [e.body for e in fleet.lines("rules_in_force")]
    assert [body["gate"]["approval"] for body in told] == [["no_champion"], [], [], ["no_champion"]]
    assert [body["scheduler"]["override_people"] for body in told] == [1, 1, 2, 1]
    assert told[0]["sha256"] == told[3]["sha256"]
