"""The scheduler killed before and after every change it persists: nothing runs twice, nothing is forgotten."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.queue import Queue
from tests.deployment.fleet import Fleet, make_shortest_rules, play
from tests.deployment.troubles import play_troubled


class Killed(BaseException):
    """Takes the place of SIGKILL: nothing after the moment it is raised reaches the disk."""


def assert_all_ran_once(folder: Path, queue: Queue) -> None:
    """One request: 1 episode on the twin, 1 at reduced and 2 at full speed, each once and each counted."""
    audit_log = folder / "state" / "audit.jsonl"
    rows = queue.rows("SELECT rung, count(*) FROM results GROUP BY rung")
    assert {row[0]: row[1] for row in rows} == {"twin": 1, "reduced": 1, "full": 2}
    assert queue.request("q-a").state == "done"
    assert queue.champion() == ("a", 0.1)
    assert not queue.open_leases()
    assert check_audit_log(audit_log, load_trusted_keys(folder / "keys")).is_whole
    changes = [entry.body["change"] for entry in read_audit_log(audit_log)]
    assert changes == list(range(1, len(changes) + 1))
    assert len(changes) == queue.rows("SELECT count(*) FROM events")[0][0]
    kinds = [entry.kind for entry in read_audit_log(audit_log)]
    assert [kinds.count(kind) for kind in ("request", "climbed", "episode", "champion")] == [1, 2, 4, 1]


def play_dying(fleet: Fleet, die_at: set[int], play_on: Callable[[Fleet], None]) -> list[str]:
    """Play to the end, dying at the given moments; returns all moments passed."""
    moments: list[str] = []

    def probe(moment: str) -> None:
        moments.append(moment)
        if len(moments) in die_at:
            raise Killed

    fleet.probe = probe
    while True:
        try:
            play_on(fleet)
            return moments
        except Killed:
            continue


def play_with_deaths(folder: Path, die_at: set[int]) -> list[str]:
    fleet = Fleet(folder, make_shortest_rules())
    moments = play_dying(fleet, die_at, play)
    assert fleet.queue is not None
    executed = fleet.executed()
    assert len(executed) == len(set(executed)) == 4
    assert_all_ran_once(folder, fleet.queue)
    fleet.kill()
    return moments


def test_killed_at_every_moment_in_turn(folder: Path) -> None:
    moments = play_with_deaths(folder / "whole", set())
    assert {moment.split()[0] for moment in moments} == {"before", "after", "told"}
    seen = {moment.partition(" ")[2] for moment in moments}
    assert seen >= {"claim", "request", "robot", "grant", "begin", "report", "end", "race"}
    for die_at in range(1, len(moments) + 1):
        play_with_deaths(folder / f"{die_at}", {die_at})


def play_through_troubles(folder: Path, die_at: set[int]) -> list[str]:
    fleet = Fleet(folder, make_shortest_rules())
    moments = play_dying(fleet, die_at, play_troubled)
    assert fleet.queue is not None
    executed = fleet.executed()
    assert len(executed) == len(set(executed))
    counted = [row[0] for row in fleet.queue.rows("SELECT episode_id FROM results")]
    assert sorted(counted) == sorted(executed)
    assert [request.state for request in fleet.queue.requests()] == ["done", "rejected"]
    assert not fleet.queue.open_leases()
    audit_log = folder / "state" / "audit.jsonl"
    assert check_audit_log(audit_log, load_trusted_keys(folder / "keys")).is_whole
    changes = [entry.body["change"] for entry in read_audit_log(audit_log)]
    assert changes == list(range(1, fleet.queue.rows("SELECT count(*) FROM events")[0][0] + 1))
    fleet.kill()
    return moments


def test_killed_in_the_middle_of_any_trouble(folder: Path) -> None:
    """Changes of a successful run are covered above; these are the others, but for a damaged audit log, a dead end."""
    moments = play_through_troubles(folder / "whole", set())
    names = [moment.partition(" ")[2] for moment in moments]
    troubles = {"approve", "halt", "resume", "lost", "gate closed", "override", "reject", "refusal", "odd report"}
    troubles |= {"clock", "accept clock", "second scheduler"}
    assert troubles <= set(names)
    for die_at, name in enumerate(names, start=1):
        if name in troubles:
            play_through_troubles(folder / f"{die_at}", {die_at})


@pytest.mark.parametrize("stride", [5, 7])
def test_killed_again_and_again(folder: Path, stride: int) -> None:
    play_with_deaths(folder, set(range(stride, 400, stride)))


def test_killed_by_the_system_until_it_gets_through(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.deployment.killed_scheduler", str(folder), "20"]
    codes = []
    while not codes or codes[-1] != 0:
        codes.append(subprocess.run(command, timeout=60, check=False).returncode)
        assert len(codes) < 15
    assert set(codes) == {0, -signal.SIGKILL}
    journals = [RobotJournal(folder / name / "journal.db", 0) for name in ("twin", "arm1")]
    queue = Queue(folder / "state", AuditLog(folder / "state" / "audit.jsonl"))
    leases = [row[0] for row in queue.rows("SELECT id FROM leases")]
    assert sum(len(journal.episodes_of(lease)) for journal in journals for lease in leases) == 4
    assert_all_ran_once(folder, queue)
