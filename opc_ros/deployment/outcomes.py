"""What follows from results: climbing, aborting, winning a race, rolling back to the champion."""

from __future__ import annotations

from typing import Any

from opc_ros.deployment.confidence import is_provably_below, running_interval
from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Request, RungTally
from opc_ros.deployment.revoking import Tell, revoke_leases
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.work import RaceResult, episodes_wanted


def follow_up(queue: Queue, tell: Tell, request: Request, rules: SchedulerRules) -> None:
    """Within a change, after a result: abort the request, let it climb, or leave it as it is."""
    if request.state not in ("queued", "done"):
        return
    tally = queue.tally(request)
    reason = why_to_abort(request, tally, rules)
    if reason:
        abort_request(queue, tell, request, reason)
    elif (
        request.state == "queued"
        and request.rung is not Rung.FULL
        and episodes_wanted(request, tally, rules) + tally.outstanding == 0
    ):
        _climb(queue, tell, request, tally, rules)


def why_to_abort(request: Request, tally: RungTally, rules: SchedulerRules) -> str:
    """The reason to abort, or nothing."""
    rung = rules.ladder.of(request.rung)
    if tally.safety_events > rung.safety_events:
        return f"{tally.safety_events} safety events on rung {request.rung}, allowed {rung.safety_events}"
    if tally.broken > rung.broken_episodes:
        return f"{tally.broken} episodes broken off on rung {request.rung}, allowed {rung.broken_episodes}"
    if is_provably_below(tally.successes, tally.trials, rung.success_floor, confidence=rules.abort_confidence):
        return (
            f"{tally.successes} successes in {tally.trials} episodes on rung {request.rung}: "
            f"provably below {rung.success_floor:.0%}"
        )
    return ""


def abort_request(queue: Queue, tell: Tell, request: Request, reason: str) -> None:
    """End a request, revoke its leases and, if it was the champion, return to the previous champion."""
    queue.set_request(request.id, state="aborted", reason=reason)
    tell("aborted", {"request_id": request.id, "candidate_id": request.candidate_id, "reason": reason})
    revoke_leases(queue, tell, f"request aborted: {reason}", request_id=request.id)
    champion = queue.champion()
    if champion is not None and champion[0] == request.candidate_id:
        queue.execute("UPDATE champions SET is_withdrawn = 1 WHERE candidate_id = ?", request.candidate_id)
        champion = queue.champion()
        back_to = champion[0] if champion else ""
        tell("champion_withdrawn", {"candidate_id": request.candidate_id, "champion": back_to, "reason": reason})
    roll_back(queue, tell, request.candidate_id, reason)


def roll_back(queue: Queue, tell: Tell, candidate_id: str, reason: str) -> None:
    """Put the champion back on every robot that serves the candidate."""
    for robot in queue.robots().values():
        if robot.serving == candidate_id:
            back_to = serve_champion(queue, robot.name)
            tell("rolled_back", {"robot": robot.name, "from": candidate_id, "to": back_to, "reason": reason})


def serve_champion(queue: Queue, robot: str) -> str:
    """Give a robot without a lease to the champion, and return who that is."""
    champion = queue.champion()
    back_to = champion[0] if champion else ""
    queue.execute("UPDATE robots SET serving = ? WHERE name = ?", back_to, robot)
    return back_to


def settle_race(queue: Queue, tell: Tell, race: RaceResult, rules: SchedulerRules, now_ns: int) -> None:
    """Drop candidates that are surely not the best, and crown the winner once the race is over."""
    for index, request in enumerate(race.requests):
        if race.is_over:
            _finish(queue, tell, request, f"race over: {race.why}")
        elif not race.standing.is_in_race[index]:
            chance = float(race.standing.within[index])
            near = f"within {100 * rules.race.tolerance:g} points of the best with probability {chance:.3f}"
            _finish(queue, tell, request, f"out of the race: {near}")
    if race.is_over:
        _crown(queue, tell, race, rules, now_ns)


def _crown(queue: Queue, tell: Tell, race: RaceResult, rules: SchedulerRules, now_ns: int) -> None:
    """Crown the winner if it ran enough episodes at full speed, succeeds often enough and beats the champion."""
    at_full = queue.real_results((Rung.FULL,))
    champion = queue.champion()
    ran = [at_full.get(request.candidate_id, RealResult(0, 0)).trials for request in race.requests]
    entitled = [index for index, trials in enumerate(ran) if trials >= rules.ladder.full.episodes]
    if not entitled:
        why = f"no candidate has run the {rules.ladder.full.episodes} episodes at full speed that a champion needs"
        tell("no_champion", {"why": why, "champion": champion[0] if champion else ""})
        return
    best = max(entitled, key=lambda index: float(race.standing.mean[index]))
    winner = race.requests[best]
    reason = _why_not_crowned(race, best, rules, champion[0] if champion else "")
    if reason:
        tell("no_champion", {"candidate_id": winner.candidate_id, "why": reason})
        return
    if champion is not None and champion[0] == winner.candidate_id:
        return
    queue.execute(
        "INSERT INTO champions (candidate_id, score, at_ns) VALUES (?, ?, ?)",
        winner.candidate_id,
        winner.score,
        now_ns,
    )
    # The winner was chosen for its results, so they flatter it; the model's prediction does not.
    low, high = race.predicted.select([best]).interval()[0].tolist()
    shown = running_interval(queue.outcomes(winner.candidate_id))
    body = {"candidate_id": winner.candidate_id, "request_id": winner.id, "trials": ran[best]}
    body |= {"estimate": round(float(race.standing.mean[best]), 4), "interval": [round(low, 4), round(high, 4)]}
    body |= {"bounds": [round(end, 4) for end in shown]}
    tell("champion", body | {"before": champion[0] if champion else "", "why": race.why})


def _why_not_crowned(race: RaceResult, best: int, rules: SchedulerRules, champion_id: str) -> str:
    mean, floor = float(race.standing.mean[best]), rules.ladder.full.success_floor
    if mean < floor:
        return f"the winner is expected to succeed in {mean:.0%}, the rules ask for {floor:.0%}"
    if champion_id in race.rivals and champion_id != race.rivals[best]:
        better = float(race.predicted.better_than(race.rivals.index(champion_id))[best])
        if better < rules.race.crown_confidence:
            asked = rules.race.crown_confidence
            return f"the winner is better than the champion with probability {better:.2f}, the rules ask for {asked:g}"
    return ""


def _climb(queue: Queue, tell: Tell, request: Request, tally: RungTally, rules: SchedulerRules) -> None:
    following = rules.ladder.after(request.rung)
    body: dict[str, Any] = {"request_id": request.id, "candidate_id": request.candidate_id, "from": request.rung}
    body |= {"successes": tally.successes, "trials": tally.trials}
    if following is None or (request.is_exploration and following is Rung.FULL):
        queue.set_request(request.id, state="done", reason=f"{tally.successes} of {tally.trials} succeeded")
        tell("finished", body)
        return
    needed = rules.ladder.of(request.rung).successes_to_climb(tally.trials)
    if tally.successes < needed:
        reason = f"{tally.successes} of {tally.trials} succeeded on rung {request.rung}; climbing takes {needed}"
        abort_request(queue, tell, request, reason)
        return
    queue.set_request(request.id, rung=following)
    tell("climbed", body | {"to": following})
    if request.is_exploration and not request.approval and rules.asks_before_exploring(following):
        reason = f"outranked; exploring on rung {following} needs a person's approval"
        queue.set_request(request.id, state="waiting", reason=reason)
        tell("asks_to_explore", {"request_id": request.id, "candidate_id": request.candidate_id, "rung": following})


def _finish(queue: Queue, tell: Tell, request: Request, reason: str) -> None:
    queue.set_request(request.id, state="done", reason=reason)
    tell("finished", {"request_id": request.id, "candidate_id": request.candidate_id, "reason": reason})
    revoke_leases(queue, tell, reason, request_id=request.id)
