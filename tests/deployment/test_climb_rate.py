"""What an exploration slot has to show before it climbs: the rung's rate, among however many episodes it has had."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from opc_ros.deployment.approval_queue import NewRequest, submit_request
from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.rules import Ladder, RobotRules, RungRules
from tests.deployment.fleet import Fleet, make_rules, say

LADDER = Ladder(RungRules(0, 0.0, 0), RungRules(4, 0.0, 0, climb_successes=3), RungRules(4, 0.0, 1))
RULES = make_rules(
    ladder=LADDER, robots={"arm1": RobotRules(("reduced", "full"))}, exploration_episodes=8, explore_unasked=True
)


class Outcomes(np.random.Generator):
    """Episodes that end as they are written down: S succeeds, F fails, and then all succeed."""

    def __init__(self, outcomes: str) -> None:
        super().__init__(np.random.PCG64(0))
        self._left = list(outcomes)

    def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
        return 1.0 if self._left and self._left.pop(0) == "F" else 0.0


def open_for_three_episodes(request: Request, real: Mapping[str, RealResult], champion: str) -> Decision:
    has_run = real.get(request.candidate_id, RealResult(0, 0)).trials >= 3
    return say(Verdict.PASS) if has_run else say(Verdict.INCONCLUSIVE, "within")


def explore(folder: Path, outcomes: str) -> list[tuple[str, int, int]]:
    """Admissions and climbs as the audit log has them: kind, successes, trials."""
    fleet = Fleet(folder, RULES, {"new": 0.5})
    fleet.rng = Outcomes(outcomes)
    fleet.verdict = open_for_three_episodes
    fleet.start()
    assert fleet.queue is not None
    asked = NewRequest(candidate_id="new", name="new", path="/c/new", score=0.0, requested_by="ada")
    submit_request(fleet.queue, RULES, asked, say(Verdict.INCONCLUSIVE, "within"), "q-new", fleet.clock())
    for _ in range(50):
        if not fleet.queue.requests("queued"):
            break
        fleet.round()
    log = read_audit_log(fleet.folder / "state" / "audit.jsonl")
    told = [(entry.kind, entry.body) for entry in log if entry.kind in ("admitted", "climbed", "finished")]
    return [(kind, body.get("successes", -1), body.get("trials", -1)) for kind, body in told]


@pytest.mark.parametrize(("trials", "needed"), [(3, 3), (4, 3), (5, 4), (7, 6), (8, 6), (100, 75)])
def test_more_episodes_need_as_many_more_successes(trials: int, needed: int) -> None:
    assert LADDER.reduced.successes_to_climb(trials) == needed


def test_a_rung_that_asks_for_no_success_asks_for_none_among_more() -> None:
    assert LADDER.full.successes_to_climb(9) == 0


def test_an_explorer_goes_on_exploring_until_its_rate_is_the_rungs(folder: Path) -> None:
    assert explore(folder, "FFSSSSSS")[:2] == [("admitted", -1, -1), ("climbed", 6, 8)]


def test_an_explorer_that_never_reaches_the_rate_ends_without_full_speed(folder: Path) -> None:
    assert explore(folder, "FFFSSSSS") == [("finished", 5, 8)]


def test_an_explorer_that_starts_well_climbs_after_the_rungs_episodes(folder: Path) -> None:
    assert explore(folder, "SSSF")[:2] == [("admitted", -1, -1), ("climbed", 3, 4)]
