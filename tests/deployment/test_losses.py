"""Lost leases are settled from the robot's journal, and each loss counts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from opc_ros.deployment.audit_check import check_audit_log, read_checkpoint, write_checkpoint
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.keys import Signer
from opc_ros.deployment.rules import Ladder, LeaseRules, RungRules
from tests.deployment.fleet import Fleet, make_rules

SHORT = LeaseRules(heartbeat_s=2.0, grace_s=2.0, length_s=600.0, losses=3)


def make_fleet(folder: Path, broken_episodes: int) -> Fleet:
    rung = RungRules(40, 0.0, 0, broken_episodes)
    fleet = Fleet(folder, make_rules(lease=SHORT, ladder=Ladder(rung, rung, RungRules(4, 0.0, 1, broken_episodes))))
    fleet.start()
    fleet.ask("a")
    return fleet


def lose_a_lease(fleet: Fleet, robot: str) -> str:
    """The robot takes a lease, runs as much of it as fits into a round, and then falls silent for a long time."""
    while not any(lease.robot == robot and lease.state == "running" for lease in fleet.queue.open_leases()):
        fleet.round()
    (lease,) = (lease for lease in fleet.queue.open_leases() if lease.robot == robot)
    fleet.robots[robot].is_reachable = False
    while lease.id not in {lost.id for lost in fleet.queue.lost_leases()}:
        fleet.round()
    return lease.id


def take_down(fleet: Fleet, times: int) -> None:
    """The twin dies with its lease, and comes back knowing nothing of it, again and again."""
    for _ in range(times):
        lose_a_lease(fleet, "twin")
        fleet.robots["twin"].is_reachable = True
        fleet.robots["twin"].running = None


def test_what_a_lost_robot_had_run_is_counted_once_when_it_returns(folder: Path) -> None:
    fleet = make_fleet(folder, 10)
    lost = lose_a_lease(fleet, "twin")
    robot = fleet.robots["twin"]
    # It ends its episode and begins another while nobody hears it.
    slot = robot.journal.spend(robot.running.permit_id, lost, f"{lost}-{{slot:03d}}", 2, fleet.clock())
    robot.journal.finish(robot.running.permit_id, slot, "success", 0)
    ran = [episode.episode_id for episode in robot.journal.episodes_of(lost)]
    robot.is_reachable = True
    for _ in range(3):
        fleet.round()
    counted = [row[0] for row in fleet.queue.rows("SELECT episode_id FROM results WHERE lease_id = ?", lost)]
    assert sorted(counted) == sorted(ran)
    assert fleet.queue.lease(lost).state == "settled"
    assert [entry.body["ran"] for entry in fleet.lines("lease_settled")] == [len(ran)]


def test_a_candidate_that_takes_its_robot_down_each_time_is_aborted(folder: Path) -> None:
    fleet = make_fleet(folder, 1)
    take_down(fleet, 2)
    request = fleet.queue.request("q-a")
    assert (request.state, "2 episodes broken off" in request.reason) == ("aborted", True)


def test_a_robot_that_loses_lease_after_lease_is_halted_until_a_person_resumes_it(folder: Path) -> None:
    fleet = make_fleet(folder, 10)
    take_down(fleet, 3)
    assert fleet.queue.robots()["twin"].halted_by == "scheduler: 3 leases lost in a row"


def test_an_audit_log_is_found_whole_while_it_is_written_to(folder: Path, signer: Signer) -> None:
    log = AuditLog(folder / "audit.jsonl", signer)
    log.append("first", {}, 1)
    keys = {signer.key_id: signer.private_key.public_key()}
    is_over = threading.Event()
    wanted = threading.Semaphore(
        0
    )  # lines per check, so that writing continues in between and the file does not fill the disk

    def write() -> None:
        while wanted.acquire() and not is_over.is_set():
            log.append("more", {"text": "x" * 300}, 2)

    def check() -> bool:
        wanted.release(200)
        return check_audit_log(log.path, keys).is_whole

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(check() for _ in range(30))
    finally:
        is_over.set()
        wanted.release()
        writer.join()


def test_a_checkpoint_spares_what_was_checked_and_finds_what_is_new(folder: Path, signer: Signer) -> None:
    log = AuditLog(folder / "audit.jsonl", signer)
    keys = {signer.key_id: signer.private_key.public_key()}
    for number in range(5):
        log.append("line", {"n": number}, number)
    write_checkpoint(log.path, check_audit_log(log.path, keys), signer)
    log.append("new", {}, 9)
    since = read_checkpoint(log.path, keys)
    assert since is not None
    assert since.entries == 5
    report = check_audit_log(log.path, keys, since=since)
    assert (report.is_whole, report.head.entries) == (True, 6)
    log.path.write_bytes(log.path.read_bytes().replace(b'"new"', b'"old"'))
    assert not check_audit_log(log.path, keys, since=since).is_whole


@pytest.mark.parametrize("damage", ["longer", "empty", "other"])
def test_a_checkpoint_that_was_tampered_with_does_not_count(folder: Path, signer: Signer, damage: str) -> None:
    log = AuditLog(folder / "audit.jsonl", signer)
    keys = {signer.key_id: signer.private_key.public_key()}
    log.append("line", {}, 1)
    write_checkpoint(log.path, check_audit_log(log.path, keys), signer)
    path = folder / "audit.jsonl.checked"
    text = path.read_text()
    path.write_text({"longer": text.replace("entries", "entries1"), "empty": "", "other": "{}"}[damage])
    assert read_checkpoint(log.path, keys) is None
