"""Which request a free robot works on next: a pure choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.queue_rows import Request, RungTally
from opc_ros.deployment.race import Standing, is_exploration_turn, judge_race, least_run
from opc_ros.deployment.rules import SchedulerRules


@dataclass(frozen=True, slots=True)
class Work:
    """Episodes of one request for one robot, and why it is its turn."""

    request: Request
    episodes: int
    why: str


@dataclass(frozen=True, slots=True)
class RaceResult:
    """Where a race among requests stands."""

    requests: tuple[Request, ...]
    standing: Standing  # over the requests, then the champion if it does not race itself
    is_over: bool
    why: str


def episodes_wanted(request: Request, tally: RungTally, rules: SchedulerRules) -> int:
    """How many more episodes a request needs on its rung, not counting those already lent."""
    if request.rung is Rung.FULL:
        total = request.episodes
    elif request.is_exploration and request.rung is Rung.REDUCED:
        total = rules.exploration_episodes
    else:
        total = rules.ladder.of(request.rung).episodes
    return max(0, total - tally.trials - tally.outstanding)


def choose_work(
    robot: str,
    requests: Sequence[Request],
    tallies: Mapping[str, RungTally],
    rules: SchedulerRules,
    real: Mapping[str, RealResult],
    batches_given: int,
) -> Work | None:
    """The highest priority first; in it, climbing candidates as they came, then whoever the race picks."""
    serves = rules.robots[robot].serves
    wanted = {request.id: episodes_wanted(request, tallies[request.id], rules) for request in requests}
    fitting = [
        request
        for request in requests
        if wanted[request.id] > 0 and serves(request.rung) and (not request.robots or robot in request.robots)
    ]
    explorers = [request for request in fitting if request.is_exploration]
    fitting = [request for request in fitting if not request.is_exploration]
    is_turn = is_exploration_turn(batches_given, rules.race)
    if explorers and (is_turn or not fitting):
        return _work(explorers[0], wanted, rules, "exploration slot")
    if not fitting:
        return None
    top = max(request.priority for request in fitting)
    fitting = [request for request in fitting if request.priority == top]
    climbing = [request for request in fitting if request.rung is not Rung.FULL]
    if climbing:
        return _work(climbing[0], wanted, rules, f"first in line for rung {climbing[0].rung}")
    return _choose_racer(fitting, wanted, tallies, rules, real, is_turn)


def judge_requests(
    requests: Sequence[Request],
    tallies: Mapping[str, RungTally],
    rules: SchedulerRules,
    real: Mapping[str, RealResult],
    champion: tuple[str, float] | None,
) -> RaceResult:
    """Whether the race among full-speed requests of one priority is over; the champion counts with its results."""
    rivals = [(request.candidate_id, request.score) for request in requests]
    if champion is not None and champion[0] in real and champion[0] not in {name for name, _ in rivals}:
        rivals.append(champion)
    scores, successes, trials = _evidence(rivals, real)
    standing = judge_race(scores, successes, trials, rules.race)
    spent = sum(tallies[request.id].trials for request in requests)
    wanted = sum(episodes_wanted(request, tallies[request.id], rules) for request in requests)
    outstanding = sum(tallies[request.id].outstanding for request in requests)
    has_leader_run = trials[standing.leader] >= rules.ladder.full.episodes
    if has_leader_run and bool(standing.is_settled) and len(rivals) > 1:
        return RaceResult(tuple(requests), standing, True, f"nobody is better by more than {rules.race.tolerance:.0%}")
    if spent >= rules.race.budget_episodes:
        return RaceResult(
            tuple(requests), standing, True, f"the race's {rules.race.budget_episodes} episodes are spent"
        )
    if wanted == 0 and outstanding == 0:
        return RaceResult(tuple(requests), standing, True, "every request has had its episodes")
    return RaceResult(tuple(requests), standing, False, "")


def _choose_racer(
    fitting: Sequence[Request],
    wanted: Mapping[str, int],
    tallies: Mapping[str, RungTally],
    rules: SchedulerRules,
    real: Mapping[str, RealResult],
    is_turn: bool,
) -> Work:
    rivals = [(request.candidate_id, request.score) for request in fitting]
    scores, successes, trials = _evidence(rivals, real)
    # Episodes under way narrow what is known before they end; without that, free arms would all choose alike.
    lent = np.array([tallies[request.id].outstanding for request in fitting], dtype=np.float64)
    rate = (successes + 0.5) / (trials + 1.0)
    standing = judge_race(scores, successes + lent * rate, trials + lent, rules.race)
    if is_turn:
        return _work(fitting[int(least_run(scores, trials + lent))], wanted, rules, "has run least")
    pick = int(standing.next)
    why = "leads the race" if pick == int(standing.leader) else "may yet beat the leader"
    return _work(fitting[pick], wanted, rules, why)


def _evidence(
    rivals: Sequence[tuple[str, float]], real: Mapping[str, RealResult]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    results = [real.get(name, RealResult(0, 0)) for name, _ in rivals]
    return (
        np.array([score for _, score in rivals], dtype=np.float64),
        np.array([result.successes for result in results], dtype=np.float64),
        np.array([result.trials for result in results], dtype=np.float64),
    )


def _work(request: Request, wanted: Mapping[str, int], rules: SchedulerRules, why: str) -> Work:
    return Work(request, min(rules.race.batch_episodes, wanted[request.id]), why)
