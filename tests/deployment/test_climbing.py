"""How a request climbs the ladder or is stopped on it, and who becomes champion and stays it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from opc_ros.deployment.approval_queue import decide_request
from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.rules import Ladder, RungRules
from opc_ros.errors import DeploymentError
from tests.deployment.fleet import Fleet, make_rules, say


def test_a_candidate_climbs_the_ladder_and_becomes_champion(fleet: Fleet) -> None:
    fleet.ask("a")
    fleet.run_until_done()
    assert fleet.queue is not None
    assert len(fleet.robots["twin"].executed) == 2
    assert len(fleet.robots["arm1"].executed) == 2 + 4
    assert fleet.queue.champion() == ("a", 0.1)
    told = [kind for kind in fleet.kinds() if kind in ("request", "permit", "climbed", "champion")]
    assert told == ["request", "permit", "climbed", "permit", "climbed", "permit", "permit", "champion"]
    assert check_audit_log(fleet.folder / "state" / "audit.jsonl", None).is_whole


def test_nothing_moves_a_real_arm_before_the_twin_is_done(fleet: Fleet) -> None:
    fleet.ask("a")
    fleet.robots["twin"].has_power = False
    for _ in range(10):
        fleet.round()
    assert fleet.executed() == []


def test_a_doubtful_request_waits_for_a_person(fleet: Fleet) -> None:
    fleet.ask("a", say(Verdict.INCONCLUSIVE))
    fleet.verdict = lambda *_: say(Verdict.INCONCLUSIVE, "snapshot")
    fleet.round()
    assert fleet.queue is not None
    assert fleet.executed() == []
    decide_request(fleet.queue, "q-a", "approve", "bob", "", fleet.clock())
    fleet.run_until_done()
    assert len(fleet.executed()) == 8


def test_a_refused_request_runs_only_with_an_override_that_names_person_and_reason(fleet: Fleet) -> None:
    fleet.ask("a", say(Verdict.FAIL))
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
    fleet.run_until_done()
    assert len(fleet.executed()) == 8
    override = fleet.lines("override")[0]
    assert override.body["person"] == "bob"
    assert override.body["reason"] == "demo for visitors"


def test_an_outranked_candidate_explores_real_arms_only_if_a_person_says_so_and_never_at_full_speed(
    fleet: Fleet,
) -> None:
    assert fleet.queue is not None
    fleet.ask("low", say(Verdict.FAIL, "top_k"), score=0.0)
    fleet.verdict = lambda *_: say(Verdict.FAIL, "top_k")
    fleet.run_until_done()
    assert fleet.queue.request("q-low").state == "waiting"
    assert {row[0] for row in fleet.queue.rows("SELECT DISTINCT rung FROM results")} == {"twin"}
    decide_request(fleet.queue, "q-low", "approve", "ada", "", fleet.clock())
    fleet.run_until_done()
    rows = fleet.queue.rows("SELECT DISTINCT rung FROM results")
    assert {row[0] for row in rows} == {"twin", "reduced"}
    assert fleet.queue.champion() is None


def test_exploration_that_convinces_the_gate_goes_on_to_full_speed(fleet: Fleet) -> None:
    assert fleet.queue is not None

    def open_until_it_has_run(request: Request, real: Mapping[str, RealResult], champion: str) -> Decision:
        has_run = real.get("new", RealResult(0, 0)).trials >= 2
        return say(Verdict.PASS) if has_run else say(Verdict.INCONCLUSIVE, "within")

    request = fleet.ask("new", say(Verdict.INCONCLUSIVE, "within"), score=0.0)
    assert (request.state, request.is_exploration) == ("queued", True)
    fleet.verdict = open_until_it_has_run
    fleet.run_until_done()
    decide_request(fleet.queue, "q-new", "approve", "ada", "", fleet.clock())  # from the twin to a real arm
    fleet.run_until_done()
    assert "admitted" in fleet.kinds()
    assert fleet.queue.champion() == ("new", 0.0)


def test_a_request_for_one_episode_makes_no_champion(fleet: Fleet) -> None:
    fleet.ask("a", episodes=1)
    fleet.run_until_done()
    assert fleet.queue is not None
    assert fleet.queue.champion() is None
    told = fleet.lines("no_champion")[0]
    assert told.body["why"] == "no candidate has run the 4 episodes at full speed that a champion needs"


def test_a_policy_that_never_succeeds_does_not_climb(folder: Path) -> None:
    ladder = Ladder(RungRules(2, 0.0, 0, climb_successes=1), RungRules(2, 0.0, 0), RungRules(4, 0.0, 1))
    fleet = Fleet(folder, make_rules(ladder=ladder), {"bad": 0.0})
    fleet.start()
    fleet.ask("bad")
    fleet.run_until_done()
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
        fleet.ask(name)
        fleet.run_until_done()
    assert fleet.queue.champion() == ("old", 0.1)
    told = [e.body["why"] for e in fleet.lines("no_champion")]
    assert "the rules ask for 0.95" in told[0]


def test_a_gate_that_closes_later_sends_the_request_to_a_person(fleet: Fleet) -> None:
    fleet.ask("a")
    for _ in range(4):
        fleet.round()
    ran = len(fleet.executed())
    fleet.verdict = lambda *_: say(Verdict.FAIL, "agreement")
    for _ in range(6):
        fleet.round()
    assert fleet.queue is not None
    assert fleet.queue.request("q-a").state == "waiting"
    assert len(fleet.executed()) <= ran + 2  # the current batch ends
    assert "gate_closed" in fleet.kinds()


def test_safety_events_abort_and_roll_back_to_the_champion(fleet: Fleet) -> None:
    fleet.ask("good")
    fleet.run_until_done()
    fleet.ask("wild")
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
    again = fleet.ask("wild", request_id="q2-wild")
    assert again.state == "refused"
    assert "was aborted before" in again.reason


def test_success_provably_too_low_aborts(folder: Path) -> None:
    ladder = Ladder(RungRules(40, 0.5, 0), RungRules(2, 0.0, 0), RungRules(4, 0.0, 1))
    fleet = Fleet(folder, make_rules(ladder=ladder), rates={"bad": 0.0})
    fleet.start()
    fleet.ask("bad")
    fleet.run_until_done()
    assert fleet.queue is not None
    assert "provably below 50%" in fleet.queue.request("q-bad").reason
    # n failures refute 1/2 at 99 % once C(2n, n) / 4^n * 2^n reaches 100: it is 95 for n = 9 and 180 for n = 10.
    assert len(fleet.executed()) == 10
    assert fleet.robots["arm1"].executed == []


def test_a_champion_whose_safety_fails_later_gives_way_to_the_one_before(fleet: Fleet) -> None:
    fleet.rules = make_rules()
    fleet.ask("first")
    fleet.run_until_done()
    fleet.rates = {"first": 0.0}
    assert fleet.queue is not None
    fleet.queue.execute("UPDATE results SET success = 0 WHERE candidate_id = 'first'")
    fleet.ask("second", score=0.2)
    fleet.run_until_done()
    assert fleet.queue.champion() == ("second", 0.2)
    assert fleet.scheduler is not None
    lease = fleet.queue.rows("SELECT id FROM leases WHERE candidate_id = 'second' AND rung = 'full' ORDER BY seq")[-1][
        0
    ]
    fleet.queue.execute("DELETE FROM results WHERE episode_id = ?", f"{lease}-001")
    fleet.scheduler.report(lease, f"{lease}-001", None, 2)
    assert fleet.queue.champion() == ("first", 0.1)
    assert "champion_withdrawn" in fleet.kinds()
