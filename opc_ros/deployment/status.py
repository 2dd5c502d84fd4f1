"""The state of requests, robots and permits, as one document for people and machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from opc_ros.deployment.audit_log import find_head
from opc_ros.deployment.confidence import success_interval
from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.deployment.queue_rows import Lease, Request
from opc_ros.deployment.recordings import Recording
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.work import Work, episodes_wanted


def describe_deployment(queue: QueueReader, now_ns: int, request_id: str = "") -> dict[str, Any]:
    """What `opc deploy status --json` prints; given a request's id, only that request."""
    everyone = queue.requests()
    names = {request.candidate_id: request.name for request in everyone}
    requests = [queue.request(request_id)] if request_id else everyone
    real = queue.real_results()
    champion = queue.champion()
    champion_id = champion[0] if champion else ""
    leases = {lease.robot: lease for lease in queue.open_leases()}
    return {
        "champion": champion_id,
        "champion_name": names.get(champion_id, champion_id[:12]),
        "requests": [
            _describe_request(queue, request, real)
            | {"running_on": [lease.robot for lease in leases.values() if lease.request_id == request.id]}
            for request in requests
        ],
        "robots": [
            {
                "robot": robot.name,
                "state": robot.state,
                "halted_by": robot.halted_by,
                "rests_s": max(0, (robot.rest_until_ns - now_ns) // 1_000_000_000),
                "serving": robot.serving,
                "lease": _describe_lease(leases[robot.name], names) if robot.name in leases else None,
            }
            for robot in queue.robots().values()
        ],
        "recordings": {"count_unrecorded": bool(queue.fact("counts_unrecorded")), "results": queue.recordings()},
        "revoked_permits": queue.rows("SELECT count(*) FROM revoked")[0][0],
        "audit_log": dataclasses.asdict(find_head(DeploymentFolder(queue.folder).audit_log)),
    }


def describe_next(works: Mapping[str, Work]) -> dict[str, dict[str, Any]]:
    """What each robot would be leased for now, and why."""
    return {
        robot: {
            "candidate_id": work.request.candidate_id,
            "name": work.request.name,
            "rung": work.request.rung,
            "episodes": work.episodes,
            "why": work.why,
        }
        for robot, work in works.items()
    }


def describe_race(queue: QueueReader, rules: SchedulerRules) -> dict[str, int]:
    """Robot time at full speed for the queued requests: episodes spent, the most that may follow, and the budget."""
    racing = [request for request in queue.requests("queued") if request.rung is Rung.FULL]
    tallies = {request.id: queue.tally(request) for request in racing}
    spent = sum(tally.trials for tally in tallies.values())
    wanted = sum(episodes_wanted(request, tallies[request.id], rules) for request in racing)
    wanted += sum(tally.outstanding for tally in tallies.values())
    budget = rules.race.budget_episodes
    return {"spent": spent, "at_most": min(wanted, max(0, budget - spent)), "budget": budget}


def describe_recordings(document: Mapping[str, Any]) -> list[str]:
    """A line for each problem with results and their recordings that a person should know about."""
    found, results = document["recordings"], document["recordings"]["results"]
    lines = ["the rules let episodes count that nobody recorded"] if found["count_unrecorded"] else []
    for state, says in (
        (Recording.NOT_ASKED, "results counted without asking for their recording"),
        (Recording.PENDING, "results wait until their recording is committed"),
        (Recording.MISSING, "results do not count: their recording was never committed"),
    ):
        if results.get(state):
            lines.append(f"{results[state]} {says}")
    return lines


def _describe_lease(lease: Lease, names: Mapping[str, str]) -> dict[str, Any]:
    return dataclasses.asdict(lease) | {"name": names.get(lease.candidate_id, lease.candidate_id[:12])}


def _describe_request(queue: QueueReader, request: Request, real: dict[str, RealResult]) -> dict[str, Any]:
    tally = queue.tally(request)
    result = real.get(request.candidate_id, RealResult(0, 0))
    low, high = success_interval(result.successes, result.trials)
    told = {name: value for name, value in dataclasses.asdict(request).items() if name != "identity"}
    return told | {
        "on_this_rung": dataclasses.asdict(tally),
        "real": {
            "successes": result.successes,
            "trials": result.trials,
            "interval": [round(float(low), 4), round(float(high), 4)],
        },
    }
