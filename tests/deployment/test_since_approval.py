"""An approval covers what the person was shown: if the gate finds something worse since, the request waits again."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.decision import Decision, Finding, Verdict
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.scheduler import Scheduler
from opc_ros.deployment.seen import Seen
from opc_ros.deployment.statement import DecisionBody, RequestBody
from opc_ros.errors import StatementRefused
from opc_ros.ranking import Ranking
from tests.deployment.handling import make_handler
from tests.deployment.lab import GATE, make_lab, publish_ranking, say

# By luck with probability 0.005: below 0.01 a person decides, below 0.0001 the gate refuses.
DOUBTFUL, HOPELESS, FINE = 0.005, 0.00005, 1.0


class Desk:
    """A lab whose gate asks a person about every request, its scheduler, and a person at their desk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.candidates = make_lab(folder, {"arm1": ["full"]}, candidates=2, rung_episodes=(0, 0, 4))
        (folder / "gate.yaml").write_text(yaml.safe_dump(GATE | {"approval": ["every_request"]}))
        self._handler = make_handler(folder)
        self.queue = self._handler._queue
        counter = itertools.count()
        self._scheduler = Scheduler(
            self.queue,
            self._handler._rules,
            DeploymentFolder(folder / "deployment").signer(),
            lambda request, real, champion: self._handler.decide(request),
            time.time_ns,
            lambda: f"id{next(counter)}",
        )

    def request(self, candidate: int = 0) -> Request:
        asked = self._handler.act_on(say(self.folder, "request", RequestBody(self.candidates[candidate].id))).request
        assert asked is not None
        assert asked.state == "waiting"
        return asked

    def look(self, request: Request) -> Seen:
        return Seen.of(request.id, self._handler.explain(request.id).findings)

    def approve(self, request: Request, seen: Seen | None) -> str:
        return self._handler.act_on(say(self.folder, "approve", DecisionBody(request.id, "", seen))).message

    def say_hidden_chance(self, chance: float) -> None:
        """A new ranking, in which the hidden episodes speak more or less clearly against everybody."""
        ranking = Ranking.from_json((self.folder / "ranking.json").read_text())
        candidates = tuple(dataclasses.replace(each, hidden_chance=chance) for each in ranking.candidates)
        publish_ranking(
            self.folder / "ranking.json", dataclasses.replace(ranking, hidden_episodes=1, candidates=candidates)
        )

    def lend(self) -> int:
        """How many leases there are once the robot is free again."""
        self._scheduler.hear("arm1", session="s1")
        self._scheduler.tick()
        return len(self.queue.open_leases())

    def close(self) -> None:
        self._scheduler.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def test_an_approval_of_what_still_stands_is_granted(desk: Desk) -> None:
    asked = desk.request()
    seen = desk.look(asked)
    assert seen.findings == {"approval": Verdict.INCONCLUSIVE}
    desk.approve(asked, seen)
    assert desk.lend() == 1


@pytest.mark.parametrize(("chance", "verdict"), [(DOUBTFUL, "inconclusive"), (HOPELESS, "fail")])
def test_a_rule_that_stands_worse_since_sends_the_request_back_with_its_name(
    desk: Desk, chance: float, verdict: str
) -> None:
    asked = desk.request()
    desk.approve(asked, desk.look(asked))
    desk.say_hidden_chance(chance)
    assert desk.lend() == 0
    line = f"rule hidden was pass when ada approved and is {verdict} now"
    waiting = desk.queue.request(asked.id)
    assert (waiting.state, waiting.approval) == ("waiting", "")
    assert line in waiting.reason
    told = [
        entry for entry in read_audit_log(desk.folder / "deployment" / "audit.jsonl") if entry.kind == "gate_closed"
    ]
    assert line in "; ".join(told[-1].body["reasons"])


def test_approving_again_what_the_gate_finds_now_counts(desk: Desk) -> None:
    asked = desk.request()
    first = desk.look(asked)
    desk.approve(asked, first)
    desk.say_hidden_chance(DOUBTFUL)
    assert desk.lend() == 0
    desk.approve(asked, desk.look(asked))
    assert desk.lend() == 1
    # The newest decision counts, in whatever order they are read.
    words = [json.loads(word)["payload"] for word in desk.queue.envelopes(asked.id)]
    assert len(words) == 3


def test_what_has_become_better_since_is_granted(desk: Desk) -> None:
    desk.say_hidden_chance(DOUBTFUL)
    asked = desk.request()
    seen = desk.look(asked)
    assert seen.findings == {"approval": Verdict.INCONCLUSIVE, "hidden": Verdict.INCONCLUSIVE}
    desk.approve(asked, seen)
    desk.say_hidden_chance(FINE)
    assert desk.lend() == 1


def test_what_was_on_the_screen_for_another_request_is_refused(desk: Desk) -> None:
    one, other = desk.request(0), desk.request(1)
    with pytest.raises(StatementRefused, match=f"the screen showed request {one.id}, expected {other.id}"):
        desk.approve(other, desk.look(one))
    refused = [
        entry
        for entry in read_audit_log(desk.folder / "deployment" / "audit.jsonl")
        if entry.kind == "statement_refused"
    ]
    assert "the screen showed request" in refused[-1].body["reason"]
    assert desk.queue.request(other.id).state == "waiting"


def test_an_approval_that_does_not_say_what_was_seen_is_refused(desk: Desk) -> None:
    asked = desk.request()
    with pytest.raises(StatementRefused, match="approve again with this version"):
        desk.approve(asked, None)


def test_an_approval_from_before_the_upgrade_goes_back_to_its_person(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = desk.request()
    monkeypatch.setattr("opc_ros.workflows.statements._check_seen", lambda statement: None)  # like the previous version
    desk.approve(asked, None)
    assert desk.lend() == 0
    reason = desk.queue.request(asked.id).reason
    assert "ada approved with a version that did not show what the gate had found: approve again" in reason


@pytest.mark.parametrize(
    ("seen", "now", "worse"),
    [
        ({}, ["floor:inconclusive"], ["floor"]),
        ({"floor": "inconclusive"}, ["floor:inconclusive"], []),
        ({"floor": "inconclusive"}, ["floor:fail"], ["floor"]),
        ({"floor": "fail"}, ["floor:inconclusive", "age:pass"], []),
        ({"floor": "inconclusive"}, ["floor:pass", "within:inconclusive"], ["within"]),
    ],
)
def test_a_finding_is_worse_if_it_went_from_pass_or_from_doubt_to_less(
    seen: dict[str, str], now: list[str], worse: list[str]
) -> None:
    was = Seen("r", {rule: Verdict(verdict) for rule, verdict in seen.items()})
    findings = [Finding(rule, Verdict(verdict), "") for rule, verdict in (each.split(":") for each in now)]
    assert [finding.rule for finding in was.find_worse(findings)] == worse


def test_the_worst_of_several_findings_of_a_rule_is_kept() -> None:
    findings = [Finding("aborted_before", verdict, "") for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)]
    assert Seen.of("r", findings).findings == {"aborted_before": Verdict.FAIL}


def test_what_only_episodes_can_tell_needs_no_approval() -> None:
    unproven = Decision("c", "r", (Finding("within", Verdict.INCONCLUSIVE, ""), Finding("age", Verdict.PASS, "")))
    assert unproven.goes_unasked(is_exploration=False)
    asked = dataclasses.replace(unproven, findings=(*unproven.findings, Finding("approval", Verdict.INCONCLUSIVE, "")))
    assert not asked.goes_unasked(is_exploration=False)
