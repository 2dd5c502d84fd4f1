"""Scheduler and policy runners as real processes over DDS: they do their work even if killed and cut off."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.robot_results import begin_session
from opc_ros.deployment.seen import Seen
from opc_ros.deployment.signing import load_machine_key
from opc_ros.deployment.statement import DecisionBody, RequestBody, RobotBody
from opc_ros.deployment.status import describe_deployment
from opc_ros.store import open_store
from tests.deployment.lab import make_lab, runner_parameters, say, scheduler_parameters
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros

Start = Callable[..., Process]
PATIENCE_S = 60.0  # where nobody is to be lost: a busy machine may keep a process waiting
ROBOTS = {"twin": ["twin"], "arm1": ["reduced", "full"]}


def wait_until(lab: Path, holds: Callable[[dict[str, Any]], bool], otherwise: str) -> dict[str, Any]:
    """Watch the deployment until a condition holds; returns what was seen."""
    deadline = time.monotonic() + 180.0
    while True:
        with DeploymentFolder(lab / "deployment").open() as (queue, _):
            got = describe_deployment(queue, time.time_ns())
        if holds(got):
            return got
        assert time.monotonic() < deadline, f"{otherwise}: {got}"
        time.sleep(0.05)


def test_a_request_runs_up_the_ladder_is_recorded_and_survives_a_killed_scheduler(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    from opc_interfaces.srv import GetDeployment, HaltDeployment, SubmitStatement

    (candidate,) = make_lab(tmp_path, ROBOTS, heartbeat_s=PATIENCE_S)
    start("recorder", "/arm1", store=str(tmp_path / "store"))
    for robot, rungs in ROBOTS.items():
        is_recorded = robot == "arm1"
        parameters = {"wait_for_recorder": is_recorded, "heartbeat_s": PATIENCE_S}
        start("policy_runner", f"/{robot}", **runner_parameters(tmp_path, robot, rungs, **parameters))
    scheduler = start("scheduler", "/", **scheduler_parameters(tmp_path))
    ask = RequestBody(candidate.id)
    answer = probe.call(SubmitStatement, "/deployment/statement", statement=say(tmp_path, "request", ask))
    assert (answer.success, answer.state) == (True, "queued"), answer.message

    answer = probe.call(GetDeployment, "/deployment/status")
    assert json.loads(answer.status_json)["requests"][0]["name"] == "c0"

    for kind, body, complaint in (
        ("request", ask, "is queued already"),
        ("approve", DecisionBody("none", seen=Seen("none", {})), "no such request"),
    ):
        answer = probe.call(SubmitStatement, "/deployment/statement", statement=say(tmp_path, kind, body))
        assert (answer.success, complaint in answer.message) == (False, True)
    assert probe.call(HaltDeployment, "/deployment/halt", robot="arm1", person="ada", reason="dust").success
    resume = say(tmp_path, "resume", RobotBody("arm1", "dusted"))
    assert probe.call(SubmitStatement, "/deployment/statement", statement=resume).success

    wait_until(tmp_path, lambda got: got["requests"][0]["rung"] != "twin", "it does not leave the twin")
    scheduler.signal(signal.SIGKILL)
    scheduler.wait()
    scheduler = start("scheduler", "/", **scheduler_parameters(tmp_path))
    final = wait_until(tmp_path, lambda got: got["requests"][0]["state"] == "done", "it does not end")
    assert final["champion"] == final["requests"][0]["candidate_id"]
    assert final["requests"][0]["real"]["trials"] == 6  # two at reduced speed, four at full
    audit_log = tmp_path / "deployment" / "audit.jsonl"
    kinds = [entry.kind for entry in read_audit_log(audit_log)]
    assert kinds.count("episode") == 8
    assert check_audit_log(audit_log, load_trusted_keys(tmp_path / "deployment" / "keys")).is_whole
    told = [
        entry.body for entry in read_audit_log(audit_log) if entry.kind == "episode" and entry.body["robot"] == "arm1"
    ]
    episodes = {body["episode_id"] for body in told}
    assert len(episodes) == 6
    with open_store(tmp_path / "store") as store:
        probe.until(lambda: episodes <= {each.id for each in store.episodes()}, "not every episode was recorded")
        recorded = [each for each in store.episodes() if each.id in episodes]
    assert all(each.permit_id and each.is_labelled for each in recorded)


def test_an_arm_cut_off_loses_its_lease_and_another_does_the_work(tmp_path: Path, start: Start, probe: Probe) -> None:
    from opc_interfaces.srv import SubmitStatement

    robots = {"arm1": ["full"], "arm2": ["full"]}
    (candidate,) = make_lab(tmp_path, robots, rung_episodes=(0, 0, 4), request_episodes=60, heartbeat_s=10.0)
    runners = {
        robot: start("policy_runner", f"/{robot}", **runner_parameters(tmp_path, robot, rungs, heartbeat_s=10.0))
        for robot, rungs in robots.items()
    }
    start("scheduler", "/", **scheduler_parameters(tmp_path))
    ask = say(tmp_path, "request", RequestBody(candidate.id))
    answer = probe.call(SubmitStatement, "/deployment/statement", statement=ask)
    assert answer.success, answer.message

    def has_lease(got: dict[str, Any]) -> bool:
        return any(robot["robot"] == "arm1" and robot["lease"] for robot in got["robots"])

    wait_until(tmp_path, has_lease, "arm1 gets no lease")
    runners["arm1"].signal(signal.SIGSTOP)
    audit_log = tmp_path / "deployment" / "audit.jsonl"

    def lost() -> list[dict[str, Any]]:
        return [entry.body for entry in read_audit_log(audit_log) if entry.kind == "lease_lost"]

    final = wait_until(tmp_path, lambda got: got["requests"][0]["state"] == "done", "nobody does arm1's work")
    assert final["requests"][0]["real"]["trials"] >= 60
    assert [body["robot"] for body in lost()] == ["arm1"]
    runners["arm1"].signal(signal.SIGCONT)
    journal = RobotJournal(tmp_path / "arm1" / "journal.db", 0)
    with DeploymentFolder(tmp_path / "deployment").open() as (queue, _):
        lease = queue.lease(lost()[0]["lease_id"])
        assert lease is not None
        probe.until(lambda: journal.is_revoked(lease.permit_id), "arm1 does not hear of the revocation")
        counted = [row[0] for row in queue.rows("SELECT episode_id FROM results")]
    assert len(counted) == len(set(counted))


def test_a_lease_whose_result_got_lost_is_asked_for_again(tmp_path: Path, start: Start, probe: Probe) -> None:
    from opc_interfaces.action import RunEpisodes
    from opc_interfaces.msg import RobotStatus
    from opc_interfaces.srv import SubmitStatement
    from rclpy.action import ActionServer

    from opc_ros.ros import topics

    (candidate,) = make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    taken: list[str] = []
    # A robot that takes every lease, reports that it is idle, and whose results never arrive.
    server = ActionServer(
        probe.node,
        RunEpisodes,
        "/arm1/run_episodes",
        execute_callback=lambda goal: RunEpisodes.Result(),
        handle_accepted_callback=lambda goal: taken.append(goal.request.lease_id),
    )
    status = probe.node.create_publisher(RobotStatus, "/arm1/robot/status", topics.LATEST)
    signer = load_machine_key(tmp_path / "arm1" / "keys", "arm1")
    assert signer is not None
    _, session = begin_session("arm1", signer, time.time_ns())
    told = RobotStatus(robot="arm1", state=RobotStatus.IDLE, session=session)
    probe.node.create_timer(0.2, lambda: status.publish(told))
    start("scheduler", "/", **scheduler_parameters(tmp_path))
    ask = say(tmp_path, "request", RequestBody(candidate.id))
    answer = probe.call(SubmitStatement, "/deployment/statement", statement=ask)
    assert answer.success, answer.message
    probe.until(lambda: len(taken) >= 3, "the lease is not sent again")
    assert len(set(taken)) == 1
    server.destroy()
