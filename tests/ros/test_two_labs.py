"""Two labs in one ROS domain, each with a robot of the same name: nothing from one reaches the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus
from opc_interfaces.srv import GetDeployment, HaltDeployment, SubmitStatement

from opc_ros.bringup.lab_names import NAMESPACE
from opc_ros.bringup.supervisor import Supervisor
from opc_ros.bringup.systems import find_system
from opc_ros.deployment.statement import RequestBody
from opc_ros.ros import topics
from opc_ros.store import open_store
from tests.deployment.lab import make_lab, runner_parameters, say, scheduler_parameters
from tests.ros.conftest import ROOT, Probe, Process

pytestmark = pytest.mark.ros
PATIENCE_S = 60.0
RUNGS = ["twin", "reduced", "full"]
LABS = ("lab_a", "lab_b")


def opc(lab: str, *words: str) -> tuple[int, Any, list[str]]:
    """Exit code, answer, and what is printed about robots left alone."""
    command = [sys.executable, "-m", "opc_ros.cli.main", *words, "--json"]
    environment = {**os.environ, NAMESPACE: lab}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S * 2, env=environment)
    return done.returncode, json.loads(done.stdout), [line for line in done.stderr.splitlines() if "left alone" in line]


class Lab:
    """Scheduler, policy runner with a scripted arm, and recorder, as processes."""

    def __init__(self, name: str, folder: Path, start: Callable[..., Process], probe: Probe) -> None:
        self.name, self.folder, self._probe = name, folder, probe
        (candidate,) = make_lab(
            folder, {"arm1": RUNGS}, rung_episodes=(1, 1, 500), request_episodes=500, heartbeat_s=PATIENCE_S
        )
        runner = runner_parameters(folder, "arm1", RUNGS, heartbeat_s=PATIENCE_S, wait_for_recorder=True)
        start("recorder", f"/{name}/arm1", store=str(folder / "recorded"))
        start("policy_runner", f"/{name}/arm1", **runner)
        start("scheduler", f"/{name}", **scheduler_parameters(folder))
        self.told = probe.listen(RobotStatus, f"/{name}/arm1/robot/status", topics.LATEST)
        ask = say(folder, "request", RequestBody(candidate.id))
        answer = probe.call(SubmitStatement, f"/{name}/deployment/statement", statement=ask)
        assert (answer.success, answer.state) == (True, "queued"), answer.message

    @property
    def status(self) -> dict[str, Any]:
        answer = self._probe.call(GetDeployment, f"/{self.name}/deployment/status")
        document: dict[str, Any] = json.loads(answer.status_json)
        return document

    @property
    def recorded(self) -> set[str]:
        """Ids of the episodes its recorder has committed."""
        with open_store(self.folder / "recorded", create=True) as store:
            return {episode.id for episode in store.episodes()}

    @property
    def is_stopped(self) -> bool:
        return bool(self.told) and self.told[-1].state == RobotStatus.STOPPED

    def plays_on(self) -> None:
        """Until it has recorded two more episodes."""
        before = len(self.recorded)
        self._probe.until(lambda: len(self.recorded) >= before + 2, f"{self.name} does not play")


def test_episodes_stops_and_deployments_of_two_labs_in_one_domain_do_not_mix(
    tmp_path: Path, start: Callable[..., Process], probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs = []
    for name in LABS:
        monkeypatch.setenv(NAMESPACE, name)
        labs.append(Lab(name, tmp_path / name, start, probe))
    monkeypatch.delenv(NAMESPACE)
    a, b = labs
    for lab in labs:
        lab.plays_on()
    assert a.status["deployment_id"] != b.status["deployment_id"]
    absolute = {
        topic for topic, _ in probe.node.get_topic_names_and_types() if not topic.startswith(("/lab_a/", "/lab_b/"))
    }
    assert absolute <= {"/rosout", "/parameter_events", "/clock"}

    # From a terminal without a lab's namespace nobody is stopped, and the output says who is left alone.
    code, said, left = opc("", "stop", "--timeout", "5")
    assert (code, said, len(left)) == (3, {"stopped": [], "unconfirmed": []}, 2)
    assert "OPC_NAMESPACE=lab_a opc stop" in left[0]
    assert not a.is_stopped
    assert not b.is_stopped

    code, said, left = opc("lab_a", "stop", "arm1", "--timeout", str(PATIENCE_S))
    assert (code, said) == (0, {"stopped": ["arm1"], "unconfirmed": []})
    probe.until(lambda: a.is_stopped, "arm1 of lab_a was told to be stopped")
    b.plays_on()
    assert not b.is_stopped
    assert a.is_stopped

    # A halt of one lab's scheduler affects only that lab.
    assert probe.call(HaltDeployment, "/lab_a/deployment/halt", person="ada", reason="smoke").success
    assert [robot["halted_by"] for robot in a.status["robots"]] == ["ada: smoke"]
    assert [robot["halted_by"] for robot in b.status["robots"]] == [""]

    code, said, _ = opc("lab_b", "stop", "--timeout", "10")
    assert (code, said) == (0, {"stopped": ["arm1"], "unconfirmed": []})

    # Each recorder kept the episodes of its own robot, and quarantined none for having two publishers.
    assert a.recorded
    assert b.recorded
    assert a.recorded.isdisjoint(b.recorded)
    for lab in labs:
        aside = [path.read_text() for path in (lab.folder / "recorded" / "quarantine").rglob("*.json")]
        assert not any("publishers" in reason for reason in aside), aside


def test_a_stop_of_a_lab_with_a_namespace_reaches_its_arm_behind_the_gateway_and_is_released(
    tmp_path: Path, ros_domain: int, probe: Probe
) -> None:
    twin = find_system("twin")
    given = {name: str(tmp_path / name) for name in ("store", "candidates", "scores", "deployment", "state")}
    given |= {"robots": "arm1", "image_size": "32", "namespace": "lab_a"}
    twin.prepare(given)
    nodes = [node for node in twin.nodes(given) if node.program in ("twin", "arm_gateway")]
    told = probe.listen(RobotStatus, "/lab_a/arm1/twin/status", topics.LATEST)
    lines: list[str] = []
    with Supervisor(nodes, lines.append):
        probe.until(lambda: told, "the twin is not heard in the lab's domain")
        code, said, _ = opc("lab_a", "stop", "arm1", "--timeout", str(PATIENCE_S))
        assert (code, said) == (0, {"stopped": ["arm1"], "unconfirmed": []}), lines[-20:]
        probe.until(lambda: told[-1].state == RobotStatus.STOPPED, "the twin does not tell of its stop")
        words = ("release", "arm1", "--timeout", str(PATIENCE_S), "--state", given["deployment"])
        code, said, _ = opc("lab_a", *words)
        assert (code, said) == (0, {"released": ["arm1"], "unconfirmed": []}), lines[-20:]
