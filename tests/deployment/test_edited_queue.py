"""Somebody who can write queue.db, without a key: no row of theirs counts, and the audit log names each one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.halting import halt, resume
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.outcomes import abort_request
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.rules import Ladder, RungRules
from opc_ros.errors import DeploymentError, QueueEdited
from tests.deployment.fleet import Fleet, make_rules


@pytest.fixture
def fleet(folder: Path) -> Fleet:
    fleet = Fleet(folder, make_rules(), {"bad": 0.0})
    fleet.start()
    return fleet


def queue_of(fleet: Fleet) -> Queue:
    assert fleet.queue is not None
    return fleet.queue


def edit(fleet: Fleet, statement: str, *values: Any) -> None:
    """As somebody with an account on the machine would, from a program of their own."""
    with closing(sqlite3.connect(fleet.folder / "state" / "queue.db", timeout=10.0)) as database, database:
        assert database.execute(statement, values).rowcount != 0


def run_rounds(fleet: Fleet, count: int) -> None:
    for _ in range(count):
        fleet.round()


def test_an_invented_champion_is_crowned_nowhere(fleet: Fleet) -> None:
    fleet.ask("good")
    while queue_of(fleet).champion() is None:
        fleet.round()
    edit(fleet, "INSERT INTO champions (candidate_id, score, at_ns) VALUES ('bad', 9.0, 0)")
    fleet.round()
    champion = queue_of(fleet).champion()
    assert champion is not None
    assert champion[0] == "good"
    (line,) = fleet.lines("row_corrected")
    assert (line.body["table"], line.body["found"], line.body["signed"]) == ("champions", "bad", "good")


def test_an_edited_result_climbs_no_ladder(folder: Path) -> None:
    needs_one = RungRules(2, 0.0, 0, 2, climb_successes=1)
    ladder = Ladder(needs_one, RungRules(2, 0.0, 0, 2), RungRules(4, 0.0, 1, 3))
    fleet = Fleet(folder, make_rules(ladder=ladder), {"bad": 0.0})
    fleet.start()
    fleet.ask("bad")
    while not queue_of(fleet).rows("SELECT 1 FROM results"):
        fleet.round()
    edit(fleet, "UPDATE results SET success = 1")
    run_rounds(fleet, 6)
    assert queue_of(fleet).request("q-bad").state == "aborted"
    assert [row[0] for row in queue_of(fleet).rows("SELECT success FROM results")] == [0, 0]
    (line,) = fleet.lines("row_corrected")
    assert line.body["found"] == "success of candidate bad on rung twin, 0 safety events"
    assert line.body["signed"] == "failure of candidate bad on rung twin, 0 safety events"


INVENTED_RESULT = "SELECT 'l-9', id, request_id, candidate_id, robot, 'full', 1, 0, 0, 'committed' FROM leases"
INVENTED_LEASE = "SELECT 99, 'l9', request_id, candidate_id, robot, rung, 9, 'done', 'p9', permit, 0, 0 FROM leases"


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        (f"INSERT INTO results {INVENTED_RESULT} LIMIT 1", "results"),
        ("DELETE FROM results WHERE success = 0", "results"),
        ("UPDATE results SET candidate_id = 'other'", "results"),
        ("UPDATE requests SET rung = 'full'", "requests"),
        ("UPDATE leases SET candidate_id = 'other'", "leases"),
        (f"INSERT INTO leases {INVENTED_LEASE} LIMIT 1", "leases"),
    ],
)
def test_a_row_that_nobody_signed_is_put_back_at_the_next_look(fleet: Fleet, statement: str, table: str) -> None:
    fleet.ask("bad")
    while not queue_of(fleet).rows("SELECT 1 FROM results"):
        fleet.round()
    before = [tuple(row) for row in queue_of(fleet).rows(f"SELECT * FROM {table}")]
    edit(fleet, statement)
    assert [tuple(row) for row in queue_of(fleet).rows(f"SELECT * FROM {table}")] != before
    queue_of(fleet).check_rows(fleet.clock())
    assert [tuple(row) for row in queue_of(fleet).rows(f"SELECT * FROM {table}")] == before
    assert {line.body["table"] for line in fleet.lines("row_corrected")} == {table}


def test_nothing_is_decided_on_rows_edited_between_looking_and_deciding(fleet: Fleet) -> None:
    fleet.ask("bad")
    while not queue_of(fleet).rows("SELECT 1 FROM results"):
        fleet.round()
    edit(fleet, "UPDATE results SET success = 1")
    with pytest.raises(QueueEdited, match="edited it: ask again"), queue_of(fleet).change("crown", 0) as tell:
        tell("champion", {"candidate_id": "bad"})
    queue_of(fleet).check_rows(fleet.clock())
    assert not fleet.lines("champion")
    assert queue_of(fleet).outcomes("bad") == []
    assert [row[0] for row in queue_of(fleet).rows("SELECT DISTINCT success FROM results")] == [0]


def test_an_aborted_request_and_a_halt_stay_whatever_the_rows_say(fleet: Fleet) -> None:
    fleet.ask("bad")
    queue = queue_of(fleet)
    with queue.change("abort", fleet.clock()) as tell:
        abort_request(queue, tell, queue.request("q-bad"), "hit the bin")
    halt(queue, "arm1", "bob", "smoke", fleet.clock())
    edit(fleet, "UPDATE requests SET state = 'queued'")
    edit(fleet, "UPDATE robots SET halted_by = ''")
    run_rounds(fleet, 3)
    assert queue.request("q-bad").state == "aborted"
    assert queue.robots()["arm1"].halted_by == "bob: smoke"
    resume(queue, "arm1", "ada", "no smoke", fleet.clock())
    run_rounds(fleet, 1)
    assert queue.robots()["arm1"].halted_by == ""
    assert len(fleet.lines("row_corrected")) == 2


def test_a_halt_that_nobody_reported_stays(fleet: Fleet) -> None:
    edit(fleet, "UPDATE robots SET halted_by = 'somebody' WHERE name = 'arm1'")
    run_rounds(fleet, 2)
    assert queue_of(fleet).robots()["arm1"].halted_by == "somebody"


def test_a_revoked_permit_taken_off_the_list_is_revoked_again(fleet: Fleet) -> None:
    fleet.ask("good")
    while not queue_of(fleet).open_leases():
        fleet.round()
    halt(queue_of(fleet), "", "bob", "smoke", fleet.clock())
    edit(fleet, "DELETE FROM revoked")
    edit(fleet, "DELETE FROM facts WHERE name = 'halted_all'")
    fleet.round()
    assert queue_of(fleet).rows("SELECT count(*) FROM revoked")[0][0] == 1
    assert queue_of(fleet).rows("SELECT value FROM facts WHERE name = 'halted_all'")[0][0] == "bob: smoke"


def test_an_event_written_into_the_database_is_never_signed(fleet: Fleet) -> None:
    body = json.dumps({"candidate_id": "bad", "request_id": "q-bad", "person": "ada", "reason": "trust me"})
    for kind in ("champion", "override"):
        edit(fleet, "INSERT INTO events (at_ns, kind, body) VALUES (5, ?, ?)", kind, body)
    run_rounds(fleet, 1)
    fleet.ask("good")
    run_rounds(fleet, 2)
    assert [line.body["claimed"] for line in fleet.lines("event_refused")] == ["champion", "override"]
    assert not fleet.lines("override")
    assert queue_of(fleet).champion() is None
    assert check_audit_log(fleet.folder / "state" / "audit.jsonl", load_trusted_keys(fleet.keys)).is_whole


def test_what_was_edited_while_nobody_scheduled_is_put_back_at_the_next_start(fleet: Fleet) -> None:
    fleet.ask("good")
    while queue_of(fleet).champion() is None:
        fleet.round()
    fleet.kill()
    edit(fleet, "UPDATE champions SET candidate_id = 'bad'")
    edit(fleet, "UPDATE results SET success = 0")
    # Covering the tracks: seals removed, one event deleted, another rewritten.
    edit(fleet, "UPDATE events SET seal = ''")
    edit(fleet, "DELETE FROM events WHERE kind = 'episode' AND change % 2 = 0")
    edit(fleet, "UPDATE events SET body = replace(body, 'good', 'evil') WHERE kind = 'champion'")
    fleet.start()
    champion = queue_of(fleet).champion()
    assert champion is not None
    assert champion[0] == "good"
    assert all(queue_of(fleet).outcomes("good"))
    assert {line.body["table"] for line in fleet.lines("row_corrected")} == {"champions", "results", "events"}


def test_a_queue_from_before_there_were_seals_keeps_working(fleet: Fleet) -> None:
    fleet.ask("good")
    run_rounds(fleet, 4)
    fleet.kill()
    edit(fleet, "ALTER TABLE events DROP COLUMN seal")
    edit(fleet, "ALTER TABLE requests DROP COLUMN identity")
    rewrite_without_identity(fleet)
    fleet.start()
    assert not fleet.lines("row_corrected")
    while queue_of(fleet).champion() is None:
        fleet.round()


def rewrite_without_identity(fleet: Fleet) -> None:
    """The request's event as an older version wrote it, in a log that was signed then."""
    path = fleet.folder / "state" / "audit.jsonl"
    told = [(line.kind, line.body, line.at_ns) for line in read_audit_log(path)]
    for each in path.parent.glob("audit.jsonl*"):
        each.unlink()
    again = AuditLog(path, fleet.signer)
    with closing(sqlite3.connect(path.with_name("queue.db"))) as database, database:
        for kind, body, at_ns in told:
            older = {
                name: value for name, value in body.items() if name not in ("identity", "rung") or kind != "request"
            }
            again.append(kind, older, at_ns)
            text = json.dumps({k: v for k, v in older.items() if k != "change"}, sort_keys=True, separators=(",", ":"))
            database.execute("UPDATE events SET body = ? WHERE change = ?", (text, older["change"]))


def test_a_deleted_request_or_permit_stops_the_scheduler_with_one_line(fleet: Fleet) -> None:
    fleet.ask("good")
    run_rounds(fleet, 3)
    edit(fleet, "UPDATE leases SET permit = 'x'")
    with pytest.raises(DeploymentError, match="has lost its permit; put back the newest good copy"):
        fleet.round()
    edit(fleet, "DELETE FROM requests")
    with pytest.raises(DeploymentError, match="request q-good was deleted"):
        fleet.round()
