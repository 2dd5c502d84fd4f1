"""If the rules require two people to override the gate, one of them alone changes nothing."""

from __future__ import annotations

from pathlib import Path

from opc_ros.deployment.approval_queue import decide_request
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.statement import DecisionBody, Statement
from tests.deployment.fleet import Fleet, make_rules, say


def test_an_override_by_one_of_two_people_grants_no_lease(folder: Path) -> None:
    fleet = Fleet(folder, make_rules(override_people=2))
    fleet.start()
    queue = fleet.queue
    assert queue is not None
    assert fleet.ask("a", say(Verdict.FAIL)).state == "refused"

    def override(person: str, nonce: str) -> str:
        said = Statement("override", person, DecisionBody("q-a", "trust me"), nonce, 0, 1, "{}")
        return decide_request(queue, "q-a", "override", person, "trust me", fleet.clock(), said, 2).state

    assert override("ada", "n1") == "waiting"
    assert override("ada", "n2") == "waiting"  # the same person twice is still one person
    fleet.round()
    assert not queue.open_leases()
    assert override("grace", "n3") == "queued"
