"""Runner, recorder and scheduler over DDS: what the recorder did not commit does not count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.statement import RequestBody
from opc_ros.store import open_store
from tests.deployment.lab import make_lab, runner_parameters, say, scheduler_parameters
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros

Start = Callable[..., Process]


def begin(lab: Path, start: Start, probe: Probe) -> None:
    from opc_interfaces.srv import SubmitStatement

    (candidate,) = make_lab(
        lab, {"arm1": ["full"]}, rung_episodes=(0, 0, 4), heartbeat_s=60.0, must_be_recorded=True, recording_wait_s=1.0
    )
    runner = runner_parameters(lab, "arm1", ["full"], wait_for_recorder=True, heartbeat_s=60.0)
    start("policy_runner", "/arm1", **runner)
    start("scheduler", "/", **scheduler_parameters(lab))
    ask = say(lab, "request", RequestBody(candidate.id))
    answer = probe.call(SubmitStatement, "/deployment/statement", statement=ask)
    assert answer.success, answer.message


def bodies(lab: Path, kind: str) -> list[dict[str, Any]]:
    path = DeploymentFolder(lab / "deployment").audit_log
    return [entry.body for entry in read_audit_log(path) if entry.kind == kind]


def test_what_counts_names_the_committed_file(tmp_path: Path, start: Start, probe: Probe) -> None:
    begin(tmp_path, start, probe)
    start("recorder", "/arm1", store=str(tmp_path / "store"))
    probe.until(lambda: len(bodies(tmp_path, "episode")) >= 4, "no four episodes")
    with open_store(tmp_path / "store") as store:
        stored = {each.id: each.file_sha256 for each in store.episodes()}
    for body in bodies(tmp_path, "episode"):
        assert (body["recording"], body["sha256"]) == ("committed", stored[body["episode_id"]])


def test_an_episode_whose_recording_went_to_quarantine_does_not_count(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    from opc_interfaces.msg import EpisodeEvent, EpisodeSummary, RecorderStatus
    from opc_interfaces.srv import GetDeployment

    from opc_ros.ros import topics

    # A recorder that never received half of the frames.
    status = probe.node.create_publisher(RecorderStatus, "/arm1/recorder/status", topics.LATEST)
    told = probe.node.create_publisher(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)

    def quarantine(event: EpisodeEvent) -> None:
        if event.kind == EpisodeEvent.END:
            summary = EpisodeSummary(robot="arm1", episode_id=event.episode_id, outcome=EpisodeSummary.QUARANTINED)
            told.publish(summary)

    probe.node.create_subscription(EpisodeEvent, "/arm1/episode/event", quarantine, topics.RECORDED)
    probe.node.create_timer(0.2, lambda: status.publish(RecorderStatus(state=RecorderStatus.WAITING)))
    begin(tmp_path, start, probe)
    probe.until(lambda: len(bodies(tmp_path, "recording")) >= 2, "nobody says that recordings are missing")
    assert {body["recording"] for body in bodies(tmp_path, "recording")} == {"missing"}
    document = json.loads(probe.call(GetDeployment, "/deployment/status").status_json)
    assert document["requests"][0]["real"]["trials"] == 0
    assert document["requests"][0]["on_this_rung"]["broken"] >= 2
