"""A lab whose race never ends: scheduler, runners and recorders of scripted arms, and twins with driver and guard."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from opc_ros.bringup.nodes import NodeSpec, Parameter
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.deployment.statement import RequestBody, RobotBody
from tests.deployment.lab import make_lab, runner_parameters, say, scheduler_parameters, write_patient_arm

HEARTBEAT_S = 4.0
GRACE_S = 5.0
NEVER = 1_000_000


def prepare(folder: Path, arms: int, twins: int) -> None:
    """Everything below `folder`; nothing that is done to its nodes may end the race."""
    robots = {name: ["full"] for name in names(arms, twins)}
    made = make_lab(
        folder,
        robots,
        candidates=2,
        rung_episodes=(0, 0, NEVER),
        request_episodes=NEVER,
        batch_episodes=4,
        heartbeat_s=HEARTBEAT_S,
        must_be_recorded=True,
        recording_wait_s=10.0,
    )
    rules = yaml.safe_load((folder / "scheduler.yaml").read_text())
    rules["lease"] |= {"grace_s": GRACE_S, "losses": NEVER}
    rules["race"] |= {"budget_episodes": 10 * NEVER, "confidence": 0.9999, "drop_below": 0.0}
    rules["ladder"]["full"] |= {"safety_events": NEVER, "broken_episodes": NEVER}
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(rules))
    (folder / "candidates.txt").write_text("\n".join(candidate.id for candidate in made))
    for twin in names(0, twins):
        write_patient_arm(folder / f"{twin}.yaml", 20.0)


def names(arms: int, twins: int) -> list[str]:
    return [f"arm{number + 1}" for number in range(arms)] + [f"twin{number + 1}" for number in range(twins)]


def nodes_of(folder: Path, arms: int, twins: int) -> dict[str, NodeSpec]:
    store = str(folder / "store")
    nodes = [NodeSpec("scheduler", "", _typed(scheduler_parameters(folder)))]
    for robot in names(arms, twins):
        calm: dict[str, Parameter] = {"min_frame_rate_hz": 0.0, "min_disk_free_mb": 1.0, "step_timeout_s": 5.0}
        patience = {"heartbeat_s": HEARTBEAT_S, "wait_for_recorder": True, "recorder_timeout_s": 5.0}
        nodes.append(NodeSpec("recorder", robot, {"store": store, **calm}))
        runner = runner_parameters(folder, robot, ["full"], **patience)
        if robot.startswith("twin"):
            arm = str(folder / f"{robot}.yaml")
            runner |= {"arm": "ros", "arm_config": arm}
            twin = {"arm_config": arm, "image_size": 64, "camera_hz": 10.0, "real_time_factor": 4.0}
            nodes.append(NodeSpec("twin", robot, _typed(twin | {"command_timeout_s": 10.0})))
            nodes.append(NodeSpec("arm_guard", robot, {"arm_config": arm, "state": str(folder / robot)}))
        nodes.append(NodeSpec("policy_runner", robot, _typed(runner)))
    return {node.label: node for node in nodes}


def _typed(parameters: dict[str, Any]) -> dict[str, Parameter]:
    return {name: value if isinstance(value, bool | int | float) else str(value) for name, value in parameters.items()}


def ask_for_time(folder: Path, probe: Any) -> None:
    """Request robot time over ROS, like everybody, for each candidate without a request."""
    from opc_interfaces.srv import SubmitStatement

    with DeploymentFolder(folder / "deployment").look() as queue:
        asked = {request.candidate_id for request in queue.requests()}
    for candidate in (folder / "candidates.txt").read_text().split():
        if candidate not in asked:
            statement = say(folder, "request", RequestBody(candidate))
            answer = probe.call(SubmitStatement, "/deployment/statement", statement=statement)
            assert answer.success, answer.message


def resume_robots(folder: Path, probe: Any) -> None:
    """Resume what the end of an earlier run halted."""
    from opc_interfaces.srv import SubmitStatement

    if look(folder, lambda queue: any(robot.halted_by for robot in queue.robots().values())):
        statement = say(folder, "resume", RobotBody("", "the run goes on"))
        answer = probe.call(SubmitStatement, "/deployment/statement", statement=statement)
        assert answer.success, answer.message


def look(folder: Path, question: Callable[[QueueReader], Any]) -> Any:
    with DeploymentFolder(folder / "deployment").look() as queue:
        return question(queue)


def unsettled(folder: Path) -> str:
    """What is still open: leases, lost leases and pending recordings; empty if all is settled."""

    def ask(queue: QueueReader) -> str:
        leases: Sequence[Any] = [*queue.open_leases(), *queue.lost_leases()]
        pending = queue.recordings().get("pending", 0)
        told = [f"lease {lease.id} on {lease.robot} is {lease.state}" for lease in leases]
        return "; ".join(told + ([f"{pending} recordings are pending"] if pending else []))

    return str(look(folder, ask))


def wait_until_settled(folder: Path, timeout_s: float) -> str:
    """Empty once all is settled, otherwise what is still open by then."""
    deadline_s = time.monotonic() + timeout_s
    while (left := unsettled(folder)) and time.monotonic() < deadline_s:
        time.sleep(0.5)
    return left
