"""Which request a free robot works on next, as a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.queue_rows import Request, RungTally
from opc_ros.deployment.race import (
    Standing,
    choose_by_results,
    choose_next,
    find_duel,
    goes_by_results,
    is_exploration_turn,
    judge_race,
    least_run,
)
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.ranking import PredictedSuccess
from opc_ros.ranking.forecast import Forecast, forecast

Rival = tuple[str, float]  # candidate id and score


@dataclass(frozen=True, slots=True)
class Work:
    """Episodes of one request for one robot, and why it is next."""

    request: Request
    episodes: int
    why: str


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The state of a race among requests."""

    requests: tuple[Request, ...]
    rivals: tuple[str, ...]  # candidate ids of the requests, then the champion's if it does not race itself
    predicted: PredictedSuccess  # of the rivals
    standing: Standing  # of the rivals
    is_over: bool
    why: str


def episodes_wanted(request: Request, tally: RungTally, rules: SchedulerRules) -> int:
    """How many more episodes a request needs on its rung, not counting those already leased."""
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
    field: Forecast | None = None,
) -> Work | None:
    """Choose the highest priority; within it, climbing candidates in order of arrival, then the race's choice."""
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
        # The best of them, or whoever most threatens the claim that it is as near the best as the gate asks.
        pick, _ = _pick(explorers, rules.exploration_tolerance, real, batches_given, field)
        return _work(explorers[pick], wanted, rules, "exploration slot")
    if not fitting:
        return None
    top = max(request.priority for request in fitting)
    fitting = [request for request in fitting if request.priority == top]
    climbing = [request for request in fitting if request.rung is not Rung.FULL]
    if climbing:
        return _work(climbing[0], wanted, rules, f"first in line for rung {climbing[0].rung}")
    if is_turn:
        scores = np.array([request.score for request in fitting])
        trials = np.array([tallies[request.id].trials + tallies[request.id].outstanding for request in fitting])
        return _work(fitting[int(least_run(scores, trials))], wanted, rules, "has run least")
    pick, leader = _pick(fitting, rules.race.tolerance, real, batches_given, field)
    return _work(fitting[pick], wanted, rules, "leads the race" if pick == leader else "may yet beat the leader")


def judge_requests(
    requests: Sequence[Request],
    tallies: Mapping[str, RungTally],
    rules: SchedulerRules,
    real: Mapping[str, RealResult],
    champion: Rival | None,
    field: Forecast | None = None,
    *,
    are_more_coming: bool = False,
) -> RaceResult:
    """Judge the race among the full-speed requests of one priority; the champion takes part with its past results.

    While more requests are climbing, a race whose requests have run all their episodes waits for them.
    """
    rivals = [(request.candidate_id, request.score) for request in requests]
    if champion is not None and champion[0] in real and champion[0] not in {name for name, _ in rivals}:
        rivals.append(champion)
    predicted = predict_rivals(rivals, real, field)
    standing = judge_race(predicted.weight, predicted.density, rules.race, predicted.correlation)
    names = tuple(name for name, _ in rivals)

    def result(is_over: bool, why: str) -> RaceResult:
        return RaceResult(tuple(requests), names, predicted, standing, is_over, why)

    spent = sum(tallies[request.id].trials for request in requests)
    wanted = sum(episodes_wanted(request, tallies[request.id], rules) for request in requests)
    outstanding = sum(tallies[request.id].outstanding for request in requests)
    leader = int(standing.leader)
    has_leader_run = leader >= len(requests) or tallies[requests[leader].id].trials >= rules.ladder.full.episodes
    if has_leader_run and bool(standing.is_settled) and len(rivals) > 1:
        chance = float(standing.within[leader])
        points = f"{100 * rules.race.tolerance:g} points"
        return result(True, f"the leader is within {points} of the best with probability {chance:.2f}")
    if spent >= rules.race.budget_episodes:
        return result(True, f"the race's {rules.race.budget_episodes} episodes are spent")
    if wanted == 0 and outstanding == 0 and not are_more_coming:
        return result(True, "every request has had its episodes")
    return result(False, "")


def predict_rivals(rivals: Sequence[Rival], real: Mapping[str, RealResult], field: Forecast | None) -> PredictedSuccess:
    """Predicted success of some candidates, from the forecast of the whole field, or from these candidates alone."""
    ids = [name for name, _ in rivals]
    if field is None or not set(ids) <= set(field.ids):
        counts = [(result.successes, result.trials) for result in (real.get(name, RealResult(0, 0)) for name in ids)]
        field = forecast(ids, [score for _, score in rivals], counts, ids)
    return field.predicted.select([field.index(name) for name in ids])


def _pick(
    requests: Sequence[Request],
    tolerance: float,
    real: Mapping[str, RealResult],
    batches_given: int,
    field: Forecast | None,
) -> tuple[int, int]:
    """Index of the next to run and of the leader; the number of batches so far seeds the random choice."""
    predicted = predict_rivals([(request.candidate_id, request.score) for request in requests], real, field)
    rng = np.random.default_rng(batches_given)
    duel = find_duel(predicted.weight, predicted.density, tolerance)
    if goes_by_results(batches_given):
        results = [real.get(request.candidate_id, RealResult(0, 0)) for request in requests]
        successes, trials = (np.array([getattr(each, name) for each in results]) for name in ("successes", "trials"))
        return int(choose_by_results(successes, trials, rng)), int(duel.leader)
    return int(choose_next(duel, rng)), int(duel.leader)


def _work(request: Request, wanted: Mapping[str, int], rules: SchedulerRules, why: str) -> Work:
    return Work(request, min(rules.race.batch_episodes, wanted[request.id]), why)
