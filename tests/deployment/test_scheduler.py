from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from opc_ros.deployment.approval_queue import NewRequest, decide_request, submit_request
from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.halting import halt, resume
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.rules import Ladder, LeaseRules, RestRules, RobotRules, RungRules
from opc_ros.deployment.scheduler import Scheduler
from opc_ros.deployment.work import episodes_wanted
from opc_ros.errors import AuditLogDamaged, DeploymentError, PermitRefused, SchedulerBusy
from tests.deployment.fleet import Fleet, make_rules, say


@pytest.fixture
def fleet(folder: Path) -> Fleet:
    made = Fleet(folder, make_rules())
    made.start()
    return made


def ask(fleet: Fleet, name: str, *, verdict: Verdict = Verdict.PASS, score: float = 0.1, **changes: object) -> Request:
    asked = NewRequest(candidate_id=name, name=name, path=f"/c/{name}", score=score, requested_by="ada", **changes)  # type: ignore[arg-type]
    rules = ("snapshot",)
    assert fleet.queue is not None
    return submit_request(fleet.queue, fleet.rules, asked, say(verdict, *rules), f"q-{name}", fleet.clock())


def run_until_done(fleet: Fleet, most: int = 300) -> int:
    assert fleet.queue is not None
    for count in range(most):
        if not fleet.queue.requests("queued"):
            return count
        fleet.round()
    raise AssertionError(f"still queued: {fleet.queue.requests('queued')}")


def kinds(fleet: Fleet) -> list[str]:
    return [entry.kind for entry in read_audit_log(fleet.folder / "state" / "audit.jsonl")]


def test_a_candidate_climbs_the_ladder_and_becomes_champion(fleet: Fleet) -> None:
    ask(fleet, "a")
    run_until_done(fleet)
    assert fleet.queue is not None
    assert len(fleet.robots["twin"].executed) == 2
    assert len(fleet.robots["arm1"].executed) == 2 + 4
    assert fleet.queue.champion() == ("a", 0.1)
    told = [kind for kind in kinds(fleet) if kind in ("request", "permit", "climbed", "champion")]
    assert told == ["request", "permit", "climbed", "permit", "climbed", "permit", "permit", "champion"]
    assert check_audit_log(fleet.folder / "state" / "audit.jsonl", None).is_whole


def test_nothing_moves_a_real_arm_before_the_twin_is_done(fleet: Fleet) -> None:
    ask(fleet, "a")
    fleet.robots["twin"].has_power = False
    for _ in range(10):
        fleet.round()
    assert fleet.executed() == []


def test_higher_priority_goes_first_then_first_come(fleet: Fleet) -> None:
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5)):
        ask(fleet, name, priority=priority)
    run_until_done(fleet)
    assert fleet.queue is not None
    rows = fleet.queue.rows("SELECT candidate_id FROM leases WHERE rung = 'reduced' ORDER BY seq")
    assert [row[0] for row in rows] == ["urgent", "first", "second"]


def test_a_doubtful_request_waits_for_a_person(fleet: Fleet) -> None:
    ask(fleet, "a", verdict=Verdict.INCONCLUSIVE)
    fleet.verdict = lambda *_: say(Verdict.INCONCLUSIVE, "snapshot")
    fleet.round()
    assert fleet.queue is not None
    assert fleet.executed() == []
    decide_request(fleet.queue, "q-a", "approve", "bob", "", fleet.clock())
    run_until_done(fleet)
    assert len(fleet.executed()) == 8


def test_a_refused_request_runs_only_with_an_override_that_names_person_and_reason(fleet: Fleet) -> None:
    ask(fleet, "a", verdict=Verdict.FAIL)
    fleet.verdict = lambda *_: say(Verdict.FAIL, "snapshot")
    assert fleet.queue is not None
    for _ in range(3):
        fleet.round()
    assert fleet.executed() == []
    with pytest.raises(DeploymentError, match="give a reason"):
        decide_request(fleet.queue, "q-a", "override", "bob", " ", fleet.clock())
    with pytest.raises(DeploymentError, match="who decides"):
        decide_request(fleet.queue, "q-a", "override", "", "because", fleet.clock())
    with pytest.raises(DeploymentError, match="is refused; approve is for waiting"):
        decide_request(fleet.queue, "q-a", "approve", "bob", "", fleet.clock())
    decide_request(fleet.queue, "q-a", "override", "bob", "demo for visitors", fleet.clock())
    run_until_done(fleet)
    assert len(fleet.executed()) == 8
    override = next(e for e in read_audit_log(fleet.folder / "state" / "audit.jsonl") if e.kind == "override")
    assert override.body["person"] == "bob"
    assert override.body["reason"] == "demo for visitors"


def test_an_outranked_candidate_explores_real_arms_only_if_a_person_says_so_and_never_at_full_speed(
    fleet: Fleet,
) -> None:
    assert fleet.queue is not None
    asked = NewRequest(candidate_id="low", name="low", path="/c/low", score=0.0, requested_by="ada")
    submit_request(fleet.queue, fleet.rules, asked, say(Verdict.FAIL, "top_k"), "q-low", fleet.clock())
    fleet.verdict = lambda *_: say(Verdict.FAIL, "top_k")
    run_until_done(fleet)
    assert fleet.queue.request("q-low").state == "waiting"
    assert {row[0] for row in fleet.queue.rows("SELECT DISTINCT rung FROM results")} == {"twin"}
    decide_request(fleet.queue, "q-low", "approve", "ada", "", fleet.clock())
    run_until_done(fleet)
    rows = fleet.queue.rows("SELECT DISTINCT rung FROM results")
    assert {row[0] for row in rows} == {"twin", "reduced"}
    assert fleet.queue.champion() is None


def test_exploration_that_convinces_the_gate_goes_on_to_full_speed(fleet: Fleet) -> None:
    assert fleet.queue is not None

    def open_until_it_has_run(request: Request, real: Mapping[str, RealResult], champion: str) -> Decision:
        has_run = real.get("new", RealResult(0, 0)).trials >= 2
        return say(Verdict.PASS) if has_run else say(Verdict.INCONCLUSIVE, "within")

    asked = NewRequest(candidate_id="new", name="new", path="/c/new", score=0.0, requested_by="ada")
    request = submit_request(
        fleet.queue, fleet.rules, asked, say(Verdict.INCONCLUSIVE, "within"), "q-new", fleet.clock()
    )
    assert (request.state, request.is_exploration) == ("queued", True)
    fleet.verdict = open_until_it_has_run
    run_until_done(fleet)
    decide_request(fleet.queue, "q-new", "approve", "ada", "", fleet.clock())  # from the twin to a real arm
    run_until_done(fleet)
    assert "admitted" in kinds(fleet)
    assert fleet.queue.champion() == ("new", 0.0)


def test_a_request_for_one_episode_makes_no_champion(fleet: Fleet) -> None:
    ask(fleet, "a", episodes=1)
    run_until_done(fleet)
    assert fleet.queue is not None
    assert fleet.queue.champion() is None
    told = next(e for e in read_audit_log(fleet.folder / "state" / "audit.jsonl") if e.kind == "no_champion")
    assert told.body["why"] == "no candidate has run the 4 episodes at full speed that a champion needs"


def test_a_policy_that_never_succeeds_does_not_climb(folder: Path) -> None:
    ladder = Ladder(RungRules(2, 0.0, 0, climb_successes=1), RungRules(2, 0.0, 0), RungRules(4, 0.0, 1))
    fleet = Fleet(folder, make_rules(ladder=ladder), {"bad": 0.0})
    fleet.start()
    ask(fleet, "bad")
    run_until_done(fleet)
    assert fleet.queue is not None
    assert {row[0] for row in fleet.queue.rows("SELECT DISTINCT rung FROM results")} == {"twin"}
    assert "0 of 2 succeeded on rung twin; climbing takes 1" in fleet.queue.request("q-bad").reason


def test_a_champion_stays_when_its_challenger_is_hardly_better(folder: Path) -> None:
    rules = make_rules(
        ladder=Ladder(RungRules(0, 0.0, 0), RungRules(0, 0.0, 0), RungRules(20, 0.0, 1)), request_episodes=20
    )
    fleet = Fleet(folder, rules, {"old": 0.8, "new": 0.8})
    fleet.start()
    assert fleet.queue is not None
    for name in ("old", "new"):
        ask(fleet, name)
        run_until_done(fleet)
    assert fleet.queue.champion() == ("old", 0.1)
    told = [e.body["why"] for e in read_audit_log(fleet.folder / "state" / "audit.jsonl") if e.kind == "no_champion"]
    assert "the rules ask for 0.95" in told[0]


def test_a_gate_that_closes_later_sends_the_request_to_a_person(fleet: Fleet) -> None:
    ask(fleet, "a")
    for _ in range(4):
        fleet.round()
    ran = len(fleet.executed())
    fleet.verdict = lambda *_: say(Verdict.FAIL, "agreement")
    for _ in range(6):
        fleet.round()
    assert fleet.queue is not None
    assert fleet.queue.request("q-a").state == "waiting"
    assert len(fleet.executed()) <= ran + 2  # the current batch ends
    assert "gate_closed" in kinds(fleet)


def test_safety_events_abort_and_roll_back_to_the_champion(fleet: Fleet) -> None:
    ask(fleet, "good")
    run_until_done(fleet)
    ask(fleet, "wild")
    assert fleet.scheduler is not None
    assert fleet.queue is not None
    while not fleet.queue.rows("SELECT 1 FROM leases WHERE candidate_id = 'wild' AND rung = 'reduced'"):
        fleet.round()
    lease = next(lease for lease in fleet.queue.open_leases() if lease.candidate_id == "wild")
    fleet.scheduler.report(lease.id, f"{lease.id}-001", None, 1)
    request = fleet.queue.request("q-wild")
    assert request.state == "aborted"
    assert "1 safety events on rung reduced, allowed 0" in request.reason
    assert fleet.queue.robots()["arm1"].serving == "good"
    fleet.round()
    assert not fleet.queue.open_leases()
    again = ask_again(fleet, "wild")
    assert again.state == "refused"
    assert "was aborted before" in again.reason


def ask_again(fleet: Fleet, name: str) -> Request:
    asked = NewRequest(candidate_id=name, name=name, path="/c", score=0.1, requested_by="ada")
    assert fleet.queue is not None
    return submit_request(fleet.queue, fleet.rules, asked, say(Verdict.PASS), f"q2-{name}", fleet.clock())


def test_success_provably_too_low_aborts(folder: Path) -> None:
    ladder = Ladder(RungRules(40, 0.5, 0), RungRules(2, 0.0, 0), RungRules(4, 0.0, 1))
    fleet = Fleet(folder, make_rules(ladder=ladder), rates={"bad": 0.0})
    fleet.start()
    ask(fleet, "bad")
    run_until_done(fleet)
    assert fleet.queue is not None
    assert "provably below 50%" in fleet.queue.request("q-bad").reason
    # n failures refute 1/2 at 99 % once C(2n, n) / 4^n * 2^n reaches 100: it is 95 for n = 9 and 180 for n = 10.
    assert len(fleet.executed()) == 10
    assert fleet.robots["arm1"].executed == []


def test_a_champion_whose_safety_fails_later_gives_way_to_the_one_before(fleet: Fleet) -> None:
    fleet.rules = make_rules()
    ask(fleet, "first")
    run_until_done(fleet)
    fleet.rates = {"first": 0.0}
    assert fleet.queue is not None
    fleet.queue.execute("UPDATE results SET success = 0 WHERE candidate_id = 'first'")
    ask(fleet, "second", score=0.2)
    run_until_done(fleet)
    assert fleet.queue.champion() == ("second", 0.2)
    assert fleet.scheduler is not None
    lease = fleet.queue.rows("SELECT id FROM leases WHERE candidate_id = 'second' AND rung = 'full' ORDER BY seq")[-1][
        0
    ]
    fleet.queue.execute("DELETE FROM results WHERE episode_id = ?", f"{lease}-001")
    fleet.scheduler.report(lease, f"{lease}-001", None, 2)
    assert fleet.queue.champion() == ("first", 0.1)
    assert "champion_withdrawn" in kinds(fleet)


def test_halting_revokes_at_once_and_resuming_leases_again(fleet: Fleet) -> None:
    ask(fleet, "a")
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
    run_until_done(fleet)
    assert len(fleet.executed()) == 8
    assert len(set(fleet.executed())) == 8


def test_an_arm_rests_after_its_episodes(folder: Path) -> None:
    fleet = Fleet(folder, make_rules(rest=RestRules(after_episodes=3, pause_s=50.0)))
    fleet.start()
    ask(fleet, "a")
    rounds = run_until_done(fleet)
    # Six episodes on the arm: it rests once, after the third or fourth, for 50 rounds of a second.
    assert rounds > 50
    assert len(fleet.robots["arm1"].executed) == 6


def test_a_robot_cut_off_loses_its_lease_and_the_work_is_given_out_again(folder: Path) -> None:
    robots = {"twin": RobotRules(("twin",)), "arm1": RobotRules(("reduced", "full")), "arm2": RobotRules(("full",))}
    fleet = Fleet(folder, make_rules(robots=robots, request_episodes=8))
    fleet.start()
    ask(fleet, "a")
    assert fleet.queue is not None
    while not any(lease.robot == "arm2" for lease in fleet.queue.open_leases()):
        fleet.round()
    cut = fleet.robots["arm2"]
    cut.is_reachable = False
    run_until_done(fleet)
    assert "lease_lost" in kinds(fleet)
    assert fleet.queue.real_results()["a"].trials >= 8
    assert len(set(fleet.executed())) == len(fleet.executed())


def test_a_late_report_of_a_lost_lease_counts_once(fleet: Fleet) -> None:
    ask(fleet, "a")
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
    assert "second_scheduler_refused" in kinds(fleet)
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
    ask(fleet, "a")
    fleet.kill()
    audit_log = fleet.folder / "state" / "audit.jsonl"
    audit_log.write_text(audit_log.read_text().replace('"requested_by":"ada"', '"requested_by":"eve"'))
    with pytest.raises(AuditLogDamaged, match="was changed after it was written; no robot is leased"):
        fleet.start()
    assert kinds(fleet)[-1] == "audit_log_damaged"
    assert fleet.executed() == []


def test_a_clock_set_back_stops_leasing_and_is_reported_once(fleet: Fleet) -> None:
    fleet.round()
    ask(fleet, "a")
    fleet.clock.advance(-3600)
    for _ in range(5):
        fleet.round()
    assert fleet.executed() == []
    assert kinds(fleet).count("clock_set_back") == 1


def test_a_robot_that_refuses_sends_the_request_to_a_person(fleet: Fleet) -> None:
    def refuse(lease: object) -> str:
        raise PermitRefused("permit p: the files have another digest: they changed")

    fleet.robots["twin"].take = refuse  # type: ignore[method-assign]
    ask(fleet, "a")
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
        ask(fleet, name, score=score)
    run_until_done(fleet, 1000)
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
        ask(fleet, name)
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
    ask(fleet, "a")
    with pytest.raises(DeploymentError, match="is queued already"):
        ask_again(fleet, "a")


def test_an_unknown_robot_in_a_request_is_named(fleet: Fleet) -> None:
    with pytest.raises(DeploymentError, match="robot 'arm9': not in the scheduler's rules"):
        ask(fleet, "a", robots=("arm9",))


def test_what_strangers_say_in_a_robots_name_fills_no_audit_log(folder: Path) -> None:
    """Refusals and robots' states arrive unsigned, from anybody on the network."""
    fleet = Fleet(folder, make_rules())
    scheduler = fleet.start()
    for number in range(300):
        scheduler.refusal("arm1", "x" * 10**6)
        scheduler.hear("arm1", is_ready=bool(number % 2))
        scheduler.tick()
    lines = list(read_audit_log(folder / "state" / "audit.jsonl"))
    refused = [line.body for line in lines if line.kind == "robot_refused"]
    assert (len(refused), len(refused[0]["detail"])) == (60, 1000)
    assert sum(line.kind == "robot" for line in lines) == 120
    fleet.clock.advance(61.0)
    scheduler.refusal("arm1", "no permit")
    last = list(read_audit_log(folder / "state" / "audit.jsonl"))[-1]
    assert last.body["not_written_before"] == 240
