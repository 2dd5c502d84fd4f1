"""Who is leased which robot when, and what a scheduler does when robots, people, clocks or its own files play false."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.deployment.halting import halt, resume
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.rules import LeaseRules, RestRules, RobotRules
from opc_ros.deployment.scheduler import Scheduler
from opc_ros.deployment.work import episodes_wanted
from opc_ros.errors import AuditLogDamaged, DeploymentError, PermitRefused, SchedulerBusy
from tests.deployment.fleet import Fleet, make_rules


def test_higher_priority_goes_first_then_first_come(fleet: Fleet) -> None:
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5)):
        fleet.ask(name, priority=priority)
    fleet.run_until_done()
    assert fleet.queue is not None
    rows = fleet.queue.rows("SELECT candidate_id FROM leases WHERE rung = 'reduced' ORDER BY seq")
    assert [row[0] for row in rows] == ["urgent", "first", "second"]


def test_halting_revokes_at_once_and_resuming_leases_again(fleet: Fleet) -> None:
    fleet.ask("a")
    while not fleet.robots["arm1"].executed:
        fleet.round()
    assert fleet.queue is not None
    permit = next(lease.permit_id for lease in fleet.queue.open_leases() if lease.robot == "arm1")
    halt(fleet.queue, "", "bob", "smoke", fleet.clock())
    ran = len(fleet.executed())
    for _ in range(5):
        fleet.round()
    assert len(fleet.executed()) == ran
    assert fleet.robots["arm1"].journal.is_revoked(permit)
    resume(fleet.queue, "", "bob", "aired", fleet.clock())
    fleet.run_until_done()
    assert len(fleet.executed()) == 8
    assert len(set(fleet.executed())) == 8


def test_an_arm_rests_after_its_episodes(folder: Path) -> None:
    fleet = Fleet(folder, make_rules(rest=RestRules(after_episodes=3, pause_s=50.0)))
    fleet.start()
    fleet.ask("a")
    rounds = fleet.run_until_done()
    # Six episodes on the arm: it rests once, after the third or fourth, for 50 rounds of a second.
    assert rounds > 50
    assert len(fleet.robots["arm1"].executed) == 6


def test_a_robot_cut_off_loses_its_lease_and_the_work_is_given_out_again(folder: Path) -> None:
    robots = {"twin": RobotRules(("twin",)), "arm1": RobotRules(("reduced", "full")), "arm2": RobotRules(("full",))}
    fleet = Fleet(folder, make_rules(robots=robots, request_episodes=8))
    fleet.start()
    fleet.ask("a")
    assert fleet.queue is not None
    while not any(lease.robot == "arm2" for lease in fleet.queue.open_leases()):
        fleet.round()
    cut = fleet.robots["arm2"]
    cut.is_reachable = False
    fleet.run_until_done()
    assert "lease_lost" in fleet.kinds()
    assert fleet.queue.real_results()["a"].trials >= 8
    assert len(set(fleet.executed())) == len(fleet.executed())


def test_a_late_report_of_a_lost_lease_counts_once(fleet: Fleet) -> None:
    fleet.ask("a")
    assert fleet.queue is not None
    assert fleet.scheduler is not None
    while not any(lease.robot == "arm1" for lease in fleet.queue.open_leases()):
        fleet.round()
    lease = next(lease for lease in fleet.queue.open_leases() if lease.robot == "arm1")
    fleet.robots["arm1"].is_reachable = False
    for _ in range(20):
        fleet.round()
    found = fleet.queue.lease(lease.id)
    assert found is not None
    assert found.state == "lost"
    for _ in range(2):
        fleet.scheduler.report(lease.id, f"{lease.id}-001", True, 0)
    assert len(fleet.queue.rows("SELECT 1 FROM results WHERE lease_id = ?", lease.id)) == 2


def test_a_second_scheduler_is_refused_and_reported(fleet: Fleet) -> None:
    second = fleet.open_queue()
    with pytest.raises(SchedulerBusy, match="schedules here already"):
        Scheduler(second, fleet.rules, fleet.signer, fleet.verdict, fleet.clock, lambda: "x")
    assert "second_scheduler_refused" in fleet.kinds()
    fleet.round()


def test_an_older_scheduler_is_shut_out_where_file_locks_do_not_reach(fleet: Fleet) -> None:
    assert fleet.queue is not None
    other = fleet.open_queue()
    with other.change("claim elsewhere", fleet.clock()):
        other.set_fact("epoch", other.fact("epoch") + 1)
    with pytest.raises(SchedulerBusy, match="a newer scheduler has taken over"):
        fleet.round()
    assert fleet.executed() == []


def test_an_edited_audit_log_stops_leasing_and_is_reported(fleet: Fleet) -> None:
    fleet.ask("a")
    fleet.kill()
    audit_log = fleet.folder / "state" / "audit.jsonl"
    audit_log.write_text(audit_log.read_text().replace('"requested_by":"ada"', '"requested_by":"eve"'))
    with pytest.raises(AuditLogDamaged, match="was changed after it was written; no robot is leased"):
        fleet.start()
    assert fleet.kinds()[-1] == "audit_log_damaged"
    assert fleet.executed() == []


def test_a_clock_set_back_stops_leasing_and_is_reported_once(fleet: Fleet) -> None:
    fleet.round()
    fleet.ask("a")
    fleet.clock.advance(-3600)
    for _ in range(5):
        fleet.round()
    assert fleet.executed() == []
    assert fleet.kinds().count("clock_set_back") == 1


def test_a_robot_that_refuses_sends_the_request_to_a_person(fleet: Fleet) -> None:
    def refuse(lease: object) -> str:
        raise PermitRefused("permit p: the files have another digest: they changed")

    fleet.robots["twin"].take = refuse  # type: ignore[method-assign]
    fleet.ask("a")
    fleet.round()
    assert fleet.queue is not None
    request = fleet.queue.request("q-a")
    assert request.state == "waiting"
    assert "robot twin refused: permit p: the files have another digest" in request.reason


def test_the_race_sends_most_episodes_to_the_contenders_and_crowns_the_best(folder: Path) -> None:
    robots = {"twin": RobotRules(("twin",)), **{f"arm{n}": RobotRules(("reduced", "full")) for n in range(1, 4)}}
    rules = make_rules(
        robots=robots,
        race=RaceRules(batch_episodes=5, budget_episodes=150, explore_every=10),
        request_episodes=80,
        lease=LeaseRules(60.0, 60.0, 6000.0),
    )
    rates = {"best": 0.95, "fair": 0.85, "poor": 0.1, "worst": 0.05}
    fleet = Fleet(folder, rules, rates)
    fleet.start()
    for name, score in (("worst", 0.1), ("poor", 0.2), ("fair", 0.3), ("best", 0.25)):
        fleet.ask(name, score=score)
    fleet.run_until_done(1000)
    assert fleet.queue is not None
    real = fleet.queue.real_results()
    assert fleet.queue.champion() == ("best", 0.25)
    assert real["best"].trials + real["fair"].trials > real["poor"].trials + real["worst"].trials
    assert sum(result.trials for result in real.values()) <= 150 + 3 * 5


def test_no_arm_idles_while_work_is_queued_for_it(folder: Path) -> None:
    arms = {f"arm{n}" for n in range(1, 7)}
    robots = {"twin": RobotRules(("twin",)), **{arm: RobotRules(("reduced", "full")) for arm in sorted(arms)}}
    fleet = Fleet(folder, make_rules(robots=robots, request_episodes=14))
    fleet.start()
    for name in ("a", "b", "c"):
        fleet.ask(name)
    assert fleet.queue is not None
    assert fleet.scheduler is not None
    looked = 0
    while requests := fleet.queue.requests("queued"):
        fleet.round()
        fleet.scheduler.tick()
        lent = {lease.robot for lease in fleet.queue.open_leases()}
        requests = [request for request in fleet.queue.requests("queued") if request.rung is not Rung.TWIN]
        wanted = sum(episodes_wanted(request, fleet.queue.tally(request), fleet.rules) for request in requests)
        assert wanted == 0 or lent >= arms
        looked += wanted > 0
    assert looked > 3
    assert len(set(fleet.executed())) == len(fleet.executed())


def test_a_second_request_for_a_queued_candidate_is_refused(fleet: Fleet) -> None:
    fleet.ask("a")
    with pytest.raises(DeploymentError, match="is queued already"):
        fleet.ask("a", request_id="q2-a")


def test_an_unknown_robot_in_a_request_is_named(fleet: Fleet) -> None:
    with pytest.raises(DeploymentError, match="robot 'arm9': not in the scheduler's rules"):
        fleet.ask("a", robots=("arm9",))


def test_what_strangers_say_in_a_robots_name_fills_no_audit_log(folder: Path) -> None:
    """Refusals and robots' states arrive unsigned, from anybody on the network."""
    fleet = Fleet(folder, make_rules())
    scheduler = fleet.start()
    for number in range(300):
        scheduler.refusal("arm1", "x" * 10**6)
        scheduler.hear("arm1", is_ready=bool(number % 2))
        scheduler.tick()
    lines = fleet.lines()
    refused = [line.body for line in lines if line.kind == "robot_refused"]
    assert (len(refused), len(refused[0]["detail"])) == (60, 1000)
    assert sum(line.kind == "robot" for line in lines) == 120
    fleet.clock.advance(61.0)
    scheduler.refusal("arm1", "no permit")
    last = fleet.lines()[-1]
    assert last.body["not_written_before"] == 240
