"""A damaged queue is rebuilt from its audit log: nothing that counted is lost, and no robot is leased unrequested."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from opc_ros.cli.main import main
from opc_ros.deployment.approval_queue import decide_request
from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.halting import halt
from opc_ros.deployment.restoring import restore_queue
from opc_ros.deployment.rules import Ladder, LeaseRules, RungRules
from opc_ros.errors import DeploymentError, SchedulerBusy
from tests.deployment.fleet import Fleet, make_rules

TABLES = {
    "results": "SELECT * FROM results ORDER BY episode_id",
    "champions": "SELECT candidate_id, is_withdrawn FROM champions ORDER BY seq",
    "permits": "SELECT id, permit, permit_id, expires_ns FROM leases ORDER BY id",
    "terms": "SELECT id, candidate_id, name, path, score, robots, episodes, priority, rung, identity FROM requests",
    "revoked": "SELECT permit_id FROM revoked ORDER BY permit_id",
    "halts": "SELECT name, halted_by FROM robots ORDER BY name",
}


def look(fleet: Fleet) -> dict[str, list[tuple[Any, ...]]]:
    assert fleet.queue is not None
    return {name: [tuple(row) for row in fleet.queue.rows(question)] for name, question in TABLES.items()}


@pytest.fixture
def fleet(folder: Path) -> Fleet:
    """Two requests, one of them done; robots at work, and one halted."""
    rung = RungRules(4, 0.0, 100, 100)
    short = LeaseRules(heartbeat_s=2.0, grace_s=2.0, length_s=600.0, losses=50)
    made = Fleet(folder, make_rules(lease=short, ladder=Ladder(rung, rung, RungRules(400, 0.0, 100, 100))))
    made.start()
    assert made.queue is not None
    for name in ("a", "b"):
        made.ask(name, priority=2)
    for _ in range(12):
        made.round()
    decide_request(made.queue, "q-b", "reject", "ada", "too slow", made.clock())
    for _ in range(30):
        made.round()
        if lent := {lease.robot for lease in made.queue.open_leases()}:
            break
    halt(made.queue, min(made.robots.keys() - lent), "ada", "squeaks", made.clock())
    shutil.copytree(made.keys, folder / "state" / "keys")
    return made


def damage(fleet: Fleet) -> DeploymentFolder:
    fleet.kill()
    state = fleet.folder / "state"
    for name in ("queue.db-wal", "queue.db-shm"):
        (state / name).unlink(missing_ok=True)
    (state / "queue.db").write_bytes(b"\0" * 8192)
    return DeploymentFolder(state)


def test_what_counted_counts_again_and_what_was_under_way_waits_for_a_person(fleet: Fleet) -> None:
    before = look(fleet)
    assert fleet.queue is not None
    is_open = [lease.id for lease in fleet.queue.open_leases()]
    assert is_open
    assert len(before["results"]) > 10
    folder = damage(fleet)
    with pytest.raises(DeploymentError, match="opc deploy restore"):
        fleet.start()
    made = restore_queue(folder, fleet.clock())
    assert (made.requests, made.results, made.waiting) == (2, len(before["results"]), ("q-a",))
    assert sorted(made.lost) == sorted(is_open)
    assert made.kept is not None
    assert made.kept.read_bytes() == b"\0" * 8192
    fleet.start()
    assert fleet.queue is not None
    after = look(fleet)
    assert after["results"] == before["results"]
    assert after["champions"] == before["champions"]
    assert after["permits"] == before["permits"]
    assert after["terms"] == before["terms"]
    assert after["halts"] == before["halts"]
    assert set(before["revoked"]) <= set(after["revoked"])
    assert {request.id: request.state for request in fleet.queue.requests()} == {"q-a": "waiting", "q-b": "rejected"}


def test_nothing_is_leased_until_a_person_agrees_and_then_nothing_runs_twice(fleet: Fleet) -> None:
    restore_queue(damage(fleet), fleet.clock())
    fleet.start()
    assert fleet.queue is not None
    leases = fleet.queue.rows("SELECT count(*) FROM leases")[0][0]
    for _ in range(5):
        fleet.round()
    assert fleet.queue.rows("SELECT count(*) FROM leases")[0][0] == leases
    assert not fleet.queue.lost_leases()  # their robots have reported what they ran
    counted = {row[0] for row in fleet.queue.rows("SELECT episode_id FROM results")}
    assert counted == set(fleet.executed())
    decide_request(fleet.queue, "q-a", "approve", "ada", "looked at it", fleet.clock())
    for _ in range(5):
        fleet.round()
    assert fleet.queue.rows("SELECT count(*) FROM leases")[0][0] > leases
    assert len(fleet.executed()) == len(set(fleet.executed()))


def test_a_restored_queue_says_so_in_an_audit_log_that_goes_on(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damage(fleet)
    assert main(["deploy", "restore", "--state", str(folder.path)]) == 0
    said = capsys.readouterr().out
    assert "wait for a person: q-a" in said
    assert "the damaged queue is kept as" in said
    assert [entry.kind for entry in read_audit_log(folder.audit_log)][-1] == "queue_restored"
    assert main(["audit", "verify", str(folder.audit_log), "--keys", str(folder.keys)]) == 0


def test_it_is_refused_while_a_scheduler_runs_and_from_a_log_that_was_edited(fleet: Fleet) -> None:
    folder = DeploymentFolder(fleet.folder / "state")
    with pytest.raises(SchedulerBusy, match="stop it first"):
        restore_queue(folder, fleet.clock())
    damage(fleet)
    lines = folder.audit_log.read_bytes().replace(b'"success":true', b'"success":null', 1)
    folder.audit_log.write_bytes(lines)
    with pytest.raises(DeploymentError, match="restore it from a copy first"):
        restore_queue(folder, fleet.clock())
