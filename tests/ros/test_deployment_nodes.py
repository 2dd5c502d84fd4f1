"""Scheduler and policy runners as real processes over DDS: they do their work, and attacks leave the arm still."""

from __future__ import annotations

import dataclasses
import json
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import Signer, create_keys, load_signer, load_trusted_keys
from opc_ros.deployment.ledger import LedgerHead
from opc_ros.deployment.ledger_check import check_ledger, read_ledger
from opc_ros.deployment.permit import Permit, Rung, Signed, sign_permit
from opc_ros.deployment.status import describe_deployment
from opc_ros.policies.candidate import Candidate
from opc_ros.store import open_store
from tests.deployment.lab import SECOND, make_lab, runner_parameters, scheduler_parameters
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros

Start = Callable[..., Process]
ROBOTS = {"twin": ["twin"], "arm1": ["reduced", "full"]}


class Client:
    """Sends goals to a runner as anybody on the network could."""

    def __init__(self, probe: Probe, robot: str) -> None:
        from opc_interfaces.action import RunEpisodes
        from rclpy.action import ActionClient

        self._probe = probe
        self._kind = RunEpisodes
        self._client = ActionClient(probe.node, RunEpisodes, f"/{robot}/run_episodes")
        probe.until(self._client.server_is_ready, f"no runner on {robot}")

    def send(self, signed: Signed | None, path: Path, lease_id: str = "lease1") -> Any:
        from opc_interfaces.msg import Permit as PermitMsg

        from opc_ros.ros.permit_messages import permit_to_msg

        permit = permit_to_msg(signed) if signed else PermitMsg()
        goal = self._kind.Goal(permit=permit, candidate_path=str(path), episodes=2, seed=1, lease_id=lease_id)
        sent = self._client.send_goal_async(goal)
        self._probe.until(sent.done, "the goal was not answered")
        result = sent.result().get_result_async()
        self._probe.until(result.done, "no result")
        return result.result().result


def issue(signer: Signer, candidate: Candidate, **changes: Any) -> Signed:
    now_ns = time.time_ns()
    permit = Permit(
        permit_id=secrets.token_hex(4),
        lease_id="lease1",
        candidate_id=candidate.id,
        robot="arm1",
        rung=Rung.REDUCED,
        episodes=2,
        issued_ns=now_ns,
        expires_ns=now_ns + 600 * SECOND,
        ledger=LedgerHead(),
    )
    return sign_permit(dataclasses.replace(permit, **changes), signer)


def wait_until(lab: Path, holds: Callable[[dict[str, Any]], bool], otherwise: str) -> dict[str, Any]:
    """Look at the deployment until something holds; gives what was seen."""
    deadline = time.monotonic() + 90.0
    while True:
        with DeploymentFolder(lab / "deployment").open() as (queue, _):
            got = describe_deployment(queue, time.time_ns())
        if holds(got):
            return got
        assert time.monotonic() < deadline, f"{otherwise}: {got}"
        time.sleep(0.05)


def test_attacks_on_a_runner_leave_the_arm_still_and_lines_in_its_ledger(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    from opc_interfaces.action import RunEpisodes
    from opc_interfaces.msg import EpisodeEvent, SafetyEvent
    from std_msgs.msg import String

    from opc_ros.ros import topics

    (candidate,) = make_lab(tmp_path, ROBOTS)
    start("policy_runner", "/arm1", **runner_parameters(tmp_path, "arm1", ROBOTS["arm1"]))
    events = probe.listen(EpisodeEvent, "/arm1/episode/event", topics.RECORDED)
    refusals = probe.listen(SafetyEvent, "/arm1/safety/event", topics.RECORDED)
    client = Client(probe, "arm1")
    signer = load_signer(tmp_path / "deployment" / "keys")
    stranger = create_keys(tmp_path / "stranger")
    good = issue(signer, candidate)
    forged = Signed(good.payload.replace('"episodes":2', '"episodes":9'), good.signature, good.key_id)
    now_ns = time.time_ns()
    attacks = [
        (None, "no permit, no motion"),
        (forged, "forged or damaged"),
        (issue(stranger, candidate), "does not trust"),
        (issue(signer, candidate, issued_ns=now_ns, expires_ns=now_ns + 1), "expired"),
        (issue(signer, candidate, robot="arm2"), "is for robot arm2"),
        (issue(signer, candidate, rung=Rung.TWIN), "is for rung twin"),
        (issue(signer, candidate, candidate_id="0" * 64), "they changed, or are another's"),
        (issue(signer, candidate, lease_id="other"), "is for another lease"),
    ]
    for signed, reason in attacks:
        result = client.send(signed, candidate.folder)
        assert result.end == RunEpisodes.Result.REFUSED
        assert reason in result.message
    assert client.send(good, tmp_path / "nowhere").end == RunEpisodes.Result.REFUSED
    unheard = client.send(good, candidate.folder)
    assert unheard.end == RunEpisodes.Result.BROKEN_OFF
    assert "scheduler unheard" in unheard.message
    assert events == []
    probe.until(lambda: len(refusals) == len(attacks) + 1, "not every refusal was published")
    entries = list(read_ledger(tmp_path / "arm1" / "ledger.jsonl"))
    assert [entry.kind for entry in entries].count("refused") >= len(attacks)
    assert check_ledger(tmp_path / "arm1" / "ledger.jsonl", None).is_whole

    heartbeat = probe.publisher(String, "/deployment/heartbeat", topics.RECORDED)
    heartbeat.publish(String(data="1"))
    done = client.send(good, candidate.folder)
    assert (done.end, done.message, done.episodes_run) == (RunEpisodes.Result.DONE, "", 2)
    again = client.send(good, candidate.folder)
    assert list(again.episode_ids) == list(done.episode_ids)  # the result once more, and no motion
    replay = client.send(
        issue(signer, candidate, permit_id=json.loads(good.payload)["content"]["permit_id"]), candidate.folder, "lease1"
    )
    assert list(replay.episode_ids) == list(done.episode_ids)
    assert sum(event.kind == EpisodeEvent.BEGIN for event in events) == 2


def test_a_request_runs_up_the_ladder_is_recorded_and_survives_a_killed_scheduler(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    from opc_interfaces.srv import DecideDeployment, GetDeployment, HaltDeployment, RequestDeployment

    make_lab(tmp_path, ROBOTS)
    start("recorder", "/arm1", store=str(tmp_path / "store"))
    for robot, rungs in ROBOTS.items():
        is_recorded = robot == "arm1"
        start("policy_runner", f"/{robot}", **runner_parameters(tmp_path, robot, rungs, wait_for_recorder=is_recorded))
    scheduler = start("scheduler", "/", **scheduler_parameters(tmp_path))
    second = start("scheduler", "/", **scheduler_parameters(tmp_path))
    probe.until(lambda: "schedules here already" in second.log.read_text() + scheduler.log.read_text(), "two of them")
    if "schedules here already" in scheduler.log.read_text():
        scheduler, second = second, scheduler
    assert second.wait() == 1
    answer = probe.call(RequestDeployment, "/deployment/request", candidate_id="c0", requested_by="ada")
    assert (answer.success, answer.message.split(":")[0]) == (True, "queued"), answer.message

    answer = probe.call(GetDeployment, "/deployment/status")
    assert json.loads(answer.status_json)["requests"][0]["name"] == "c0"

    again = probe.call(RequestDeployment, "/deployment/request", candidate_id="c0", requested_by="ada")
    assert (again.success, "is queued already" in again.message) == (False, True)
    answer = probe.call(DecideDeployment, "/deployment/decide", request_id="none", decision=0, person="ada")
    assert (answer.success, "there is none" in answer.message) == (False, True)
    for is_halt in (True, False):
        answer = probe.call(HaltDeployment, "/deployment/halt", halt=is_halt, robot="arm1", person="ada", reason="dust")
        assert answer.success

    wait_until(tmp_path, lambda got: got["requests"][0]["rung"] != "twin", "it does not leave the twin")
    scheduler.signal(signal.SIGKILL)
    scheduler.wait()
    scheduler = start("scheduler", "/", **scheduler_parameters(tmp_path))
    final = wait_until(tmp_path, lambda got: got["requests"][0]["state"] == "done", "it does not end")
    assert final["champion"] == final["requests"][0]["candidate_id"]
    assert final["requests"][0]["real"]["trials"] == 4
    ledger = tmp_path / "deployment" / "ledger.jsonl"
    kinds = [entry.kind for entry in read_ledger(ledger)]
    assert kinds.count("episode") == 8
    assert kinds.count("second_scheduler_refused") == 1
    assert check_ledger(ledger, load_trusted_keys(tmp_path / "deployment" / "keys")).is_whole
    told = [entry.body for entry in read_ledger(ledger) if entry.kind == "episode" and entry.body["robot"] == "arm1"]
    episodes = {body["episode_id"] for body in told}
    assert len(episodes) == 6
    with open_store(tmp_path / "store") as store:
        probe.until(lambda: episodes <= {each.id for each in store.episodes()}, "not every episode was recorded")
        recorded = [each for each in store.episodes() if each.id in episodes]
    assert all(each.permit_id and each.is_labelled for each in recorded)


def test_an_arm_cut_off_loses_its_lease_and_another_does_the_work(tmp_path: Path, start: Start, probe: Probe) -> None:
    from opc_interfaces.srv import RequestDeployment

    robots = {"arm1": ["full"], "arm2": ["full"]}
    make_lab(tmp_path, robots, rung_episodes=(0, 0, 4), request_episodes=60)
    runners = {
        robot: start("policy_runner", f"/{robot}", **runner_parameters(tmp_path, robot, rungs))
        for robot, rungs in robots.items()
    }
    start("scheduler", "/", **scheduler_parameters(tmp_path))
    answer = probe.call(RequestDeployment, "/deployment/request", candidate_id="c0", requested_by="ada")
    assert answer.success, answer.message

    def has_lease(got: dict[str, Any]) -> bool:
        return any(robot["robot"] == "arm1" and robot["lease"] for robot in got["robots"])

    wait_until(tmp_path, has_lease, "arm1 gets no lease")
    runners["arm1"].signal(signal.SIGSTOP)
    ledger = tmp_path / "deployment" / "ledger.jsonl"

    def lost() -> list[dict[str, Any]]:
        return [entry.body for entry in read_ledger(ledger) if entry.kind == "lease_lost"]

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
