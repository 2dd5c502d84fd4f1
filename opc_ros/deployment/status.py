"""Where requests, robots and permits stand, as one document for people and machines."""

from __future__ import annotations

import dataclasses
from typing import Any

from opc_ros.deployment.confidence import success_interval
from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Request


def describe_deployment(queue: Queue, now_ns: int, request_id: str = "") -> dict[str, Any]:
    """What `opc deploy status --json` prints; with a request's id, that request alone."""
    requests = [queue.request(request_id)] if request_id else queue.requests()
    real = queue.real_results()
    champion = queue.champion()
    leases = {lease.robot: lease for lease in queue.open_leases()}
    return {
        "champion": champion[0] if champion else "",
        "requests": [_describe_request(queue, request, real) for request in requests],
        "robots": [
            {
                "robot": robot.name,
                "state": robot.state,
                "halted_by": robot.halted_by,
                "rests_s": max(0, (robot.rest_until_ns - now_ns) // 1_000_000_000),
                "serving": robot.serving,
                "lease": dataclasses.asdict(leases[robot.name]) if robot.name in leases else None,
            }
            for robot in queue.robots().values()
        ],
        "revoked_permits": queue.rows("SELECT count(*) FROM revoked")[0][0],
        "audit_log": dataclasses.asdict(queue.audit_log.head()),
    }


def _describe_request(queue: Queue, request: Request, real: dict[str, RealResult]) -> dict[str, Any]:
    tally = queue.tally(request)
    result = real.get(request.candidate_id, RealResult(0, 0))
    low, high = success_interval(result.successes, result.trials)
    return dataclasses.asdict(request) | {
        "on_this_rung": dataclasses.asdict(tally),
        "real": {
            "successes": result.successes,
            "trials": result.trials,
            "interval": [round(float(low), 4), round(float(high), 4)],
        },
    }
