"""A twin behind its gateway, its policy runner and their scheduler as real processes, and an attacker beside them."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import EpisodeEvent, RobotStatus, SafetyEvent
from opc_interfaces.msg import Permit as PermitMsg
from rclpy.action import ActionClient
from rosgraph_msgs.msg import Clock

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.audit_log import AuditHead, Entry
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.keys import Signer, load_signer
from opc_ros.deployment.permit import Rung, sign_permit
from opc_ros.ros import convert, topics
from opc_ros.ros.permit_messages import permit_to_msg
from tests.deployment.lab import SECOND, make_lab, runner_parameters, scheduler_parameters, write_patient_arm
from tests.deployment.permits import make_permit, session_in
from tests.domains import own_domain, take_domain
from tests.ros.twin_rig import PATIENCE_S, ROBOT, ROOT, TwinProcess, Watcher

RUNGS = ["reduced", "full"]
FAKE = "arm9"  # a robot of the lab that is not switched on
STILL_RAD = 1e-3


class Rig:
    """One arm, attacked again and again; everything its processes know is below `folder`."""

    def __init__(self, folder: Path, arm_domain: int) -> None:
        self.folder = folder
        (self.candidate,) = make_lab(folder, {ROBOT: RUNGS, FAKE: RUNGS}, rung_episodes=(0, 2, 2))
        self.signer = load_signer(folder / "deployment" / "keys")
        self.clock_offset_ns = 0
        self.audit_head = AuditHead()
        self._processes: list[subprocess.Popen[str]] = []
        self.arm_domain = arm_domain
        self._twin = TwinProcess(
            domain=arm_domain, real_time_factor=1.0, command_timeout_s=20.0, keys=folder / ROBOT / "keys"
        )
        write_patient_arm(folder / "arm.yaml", PATIENCE_S)
        self.socket_folder = folder / ROBOT / "gateway"
        self.gateway = self.start("arm_gateway", f"/{ROBOT}", self.gateway_parameters())
        self.start("policy_runner", f"/{ROBOT}", self.runner_parameters())
        self.watcher = Watcher()
        self.statuses: list[RobotStatus] = []
        self.episode_events: list[EpisodeEvent] = []
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.communicate(timeout=PATIENCE_S)
        self.watcher.close()
        self._twin.stop()

    def _connect(self) -> None:
        node = self.watcher.node
        node.create_subscription(RobotStatus, "robot/status", self.statuses.append, topics.LATEST)
        node.create_subscription(EpisodeEvent, "episode/event", self.episode_events.append, topics.RECORDED)
        self._clock = node.create_publisher(Clock, "/clock", 10)
        node.create_timer(0.05, self.tell_time)
        self._client = ActionClient(node, RunEpisodes, "run_episodes")
        self.watcher.wait_until(self._client.server_is_ready)
        self.watcher.wait_until(lambda: bool(self.watcher.joints))
        self.wait_for_robots_clock()

    def runner_parameters(self) -> dict[str, Any]:
        """So slow that any motion is seen, and a stop arrives in mid-motion."""
        slow = {"arm": "ros", "arm_config": self.folder / "arm.yaml", "reduced_speed": 0.02}
        given = runner_parameters(self.folder, ROBOT, RUNGS, **slow)
        return given | {"gateway": self.socket_folder, "use_sim_time": True}

    def gateway_parameters(self) -> dict[str, Any]:
        return {
            "arm_config": self.folder / "arm.yaml",
            "arm_domain": self.arm_domain,
            "rungs": ",".join(RUNGS),
            "reduced_speed": 0.02,
            "keys": self.folder / ROBOT / "keys",
            "state": self.folder / ROBOT,
            "silence_s": 20.0,
            "stale_s": 20.0,
        }

    def start(
        self, program: str, namespace: str, parameters: dict[str, Any], domain: int | None = None
    ) -> subprocess.Popen[str]:
        """In the lab's ROS domain, or in the given one."""
        words = ["--ros-args", "-r", f"__ns:={namespace}"]
        for name, value in parameters.items():
            words += ["-p", f"{name}:={str(value).lower() if isinstance(value, bool) else value}"]
        command = [sys.executable, "-m", f"opc_ros.ros.{program}_node", *words]
        self._newest_log = self.folder / f"{program}-{len(self._processes)}.log"
        log = self._newest_log.open("w")
        environment = os.environ if domain is None else {**os.environ, "ROS_DOMAIN_ID": str(domain)}
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment)
        self._processes.append(process)
        return process

    def newest_log(self) -> str:
        """Output of the process that was started last."""
        return self._newest_log.read_text()

    def start_scheduler(self) -> subprocess.Popen[str]:
        return self.start("scheduler", "/", scheduler_parameters(self.folder))

    def wait_for_robots_clock(self) -> None:
        """Until the runner uses the clock that the rig publishes."""

        def follows() -> bool:
            if not self.statuses:
                return False
            behind_ns = self._now_ns() - convert.stamp_to_ns(self.statuses[-1].header.stamp)
            return abs(behind_ns) < 2 * SECOND

        self.watcher.wait_until(follows)

    def wait_for_runner(self, state: int) -> None:
        self.watcher.wait_until(lambda: bool(self.statuses) and self.statuses[-1].state == state)

    def issue(self, signer: Signer | None = None, **changes: Any) -> Signed:
        """A permit for one episode that is valid except for the changes."""
        terms: dict[str, Any] = {"lease_id": "lease1", "audit_head": self.audit_head, "session": self.session()}
        permit = make_permit(self.candidate.id, ROBOT, Rung.REDUCED, **terms)
        return sign_permit(dataclasses.replace(permit, **changes), signer or self.signer)

    def issue_forged(self) -> Signed:
        """A good permit whose one episode somebody made nine."""
        good = self.issue()
        return dataclasses.replace(good, payload=good.payload.replace('"episodes":1', '"episodes":9'))

    def issue_expired(self) -> Signed:
        now_ns = time.time_ns()
        return self.issue(issued_ns=now_ns, expires_ns=now_ns + 1)

    def session(self) -> str:
        """The runner's current start id, as it publishes it."""
        return session_in(self.statuses[-1].session)

    def send(self, signed: Signed | None, path: Path | None = None, lease_id: str = "lease1") -> Any:
        """A goal for the runner, as anybody on the network could send it; returns a future of its result."""
        permit = permit_to_msg(signed) if signed else PermitMsg()
        folder = path or self.candidate.folder
        goal = RunEpisodes.Goal(permit=permit, candidate_path=str(folder), seed=1, lease_id=lease_id)
        sent = self.watcher.act(lambda: self._client.send_goal_async(goal))
        self.watcher.wait_until(sent.done)
        return self.watcher.act(sent.result().get_result_async)

    def answer(self, signed: Signed | None, path: Path | None = None, lease_id: str = "lease1") -> RunEpisodes.Result:
        future = self.send(signed, path, lease_id)
        self.watcher.wait_until(future.done)
        return future.result().result

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        client = self.watcher.node.create_client(kind, service)
        self.watcher.wait_until(client.service_is_ready)
        future = client.call_async(kind.Request(**fields))
        self.watcher.wait_until(future.done)
        return future.result()

    def copy_candidate(self, name: str) -> Path:
        return Path(shutil.copytree(self.candidate.folder, self.folder / "copies" / name))

    def publishers(self, topic: str) -> set[str]:
        """Names of the nodes that publish one of the robot's topics in the lab's domain."""
        found = self.watcher.node.get_publishers_info_by_topic(f"/{ROBOT}/{topic}")
        return {str(info.node_name) for info in found}

    def robots_lines(self) -> list[Entry]:
        """The robot's own audit log."""
        return _read_lines(self.folder / ROBOT / "audit.jsonl")

    def schedulers_lines(self) -> list[Entry]:
        return _read_lines(self.folder / "deployment" / "audit.jsonl")

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing may move the arm in the meantime, nor for some joint states after."""
        joints = self.watcher.joints
        first = len(joints)
        yield
        end = len(joints)
        self.watcher.wait_until(lambda: len(joints) > end + 20)
        seen = np.array([state.position for state in joints[max(first - 1, 0) :]])
        assert np.ptp(seen, axis=0).max() < STILL_RAD, "the arm moved"

    def _now_ns(self) -> int:
        return time.time_ns() + self.clock_offset_ns

    def tell_time(self) -> None:
        now_ns = self._now_ns()
        self._clock.publish(Clock(clock=Time(sec=now_ns // SECOND, nanosec=now_ns % SECOND)))


def assert_refused(rig: Rig, signed: Signed | None, reason: str, **how: object) -> None:
    count = len(rig.robots_lines())
    with rig.still():
        result = rig.answer(signed, **how)  # type: ignore[arg-type]
    assert result.end == RunEpisodes.Result.REFUSED
    assert reason in result.message
    (line,) = rig.robots_lines()[count:]
    assert line.kind == "refused"
    assert reason in line.body["reason"]
    rig.watcher.wait_for_event(SafetyEvent.REFUSED, reason)


@contextmanager
def attacked(folder: Path, kind: type[Rig] = Rig) -> Iterator[Rig]:
    """A rig in domains of its own, the lab's and the arm's."""
    with own_domain(), take_domain() as arm_domain:
        rig = kind(folder, int(arm_domain))
        try:
            yield rig
        finally:
            rig.close()


def _read_lines(path: Path) -> list[Entry]:
    return list(read_audit_log(path)) if path.exists() else []


def spoil(folder: Path) -> None:
    """Change one byte of a candidate's weights, and replace the file as a program would."""
    (artifact,) = (path for path in folder.iterdir() if path.name != "candidate.yaml")
    changed = bytearray(artifact.read_bytes())
    changed[-1] ^= 1
    beside = artifact.with_name("beside")
    beside.write_bytes(changed)
    os.replace(beside, artifact)


def rewrite_ranking(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text())
    assert set(changes) <= set(content)
    path.write_text(json.dumps(content | changes))
