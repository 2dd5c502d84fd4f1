"""Time from a person's approval to the permit that a robot receives over DDS.

python -m tests.benchmarks.bench_approval
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from opc_interfaces.srv import SubmitStatement
from rclpy.action.server import ServerGoalHandle

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.seen import Seen
from opc_ros.deployment.signing import find_signer, make_person_key
from opc_ros.deployment.statement import DecisionBody, RequestBody, sign_statement
from tests.deployment.lab import make_lab, say, scheduler_parameters
from tests.domains import own_domain
from tests.ros.idle_robots import IdleRobot, make_robots
from tests.ros.spun_node import SpunNode
from tests.ros.twin_rig import ROOT

ROBOT = "arm1"
GOAL_MS = 300.0
PATIENCE_S = 120.0
WARM_UP = 3


class ListeningRobot(IdleRobot):
    """Notes when it received each permit, by the machine's clock and by a monotonic one."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.heard: list[tuple[int, float]] = []

    def _take(self, goal: ServerGoalHandle) -> None:
        self.heard.append((time.time_ns(), time.monotonic()))
        super()._take(goal)


class Bench:
    """A scheduler in a process of its own; person and robot are played here."""

    def __init__(self, lab: Path) -> None:
        self.lab = lab
        (self.candidate,) = make_lab(lab, {ROBOT: ["full"]}, rung_episodes=(0, 0, 4), request_episodes=200)
        make_person_key(lab / "deployment" / "keys", "bob")
        self._spun = SpunNode("bench")
        node = self._spun.node
        self.robot: ListeningRobot = make_robots(node, [ROBOT], lab, kind=ListeningRobot)[ROBOT]
        self._client = node.create_client(SubmitStatement, "/deployment/statement")
        self._spun.start()

    def close(self) -> None:
        self.robot.close()
        self._spun.close()

    def make_waiting(self) -> str:
        """A request that waits for a person, only because somebody has rejected the candidate before."""
        while True:
            answer = self.submit(say(self.lab, "request", RequestBody(self.candidate.id)))
            if answer.state == "waiting":
                self.wait_until(self.is_free, every_s=0.1)
                return str(answer.request_id)
            self.end(str(answer.request_id))

    def is_free(self) -> bool:
        """After a lease that was cut short, a robot is left alone for the time of a heartbeat."""
        with DeploymentFolder(self.lab / "deployment").look() as queue:
            robot = queue.robots()[ROBOT]
            return robot.state == "ready" and robot.rest_until_ns < time.time_ns() and not queue.open_leases()

    def end(self, request_id: str) -> None:
        """Reject it, and wait until the robot is free again."""
        keys = self.lab / "deployment" / "keys"
        signs = find_signer(keys, keys / "bob.person.pem")
        body = DecisionBody(request_id, "the next one")
        self.submit(sign_statement("reject", signs.person, body, signs.signer, time.time_ns()))
        self.wait_until(lambda: not self.robot.permit_id)

    def submit(self, envelope: str) -> Any:
        self.wait_until(self._client.service_is_ready)
        future = self._client.call_async(SubmitStatement.Request(statement=envelope))
        self.wait_until(future.done)
        answer = future.result()
        assert answer.success, answer.message
        return answer

    def approve(self, request_id: str) -> float:
        """Over DDS, as the console does: from sending the signed statement."""
        seen = Seen(request_id, {"rejected_before": Verdict.INCONCLUSIVE})
        envelope, count = say(self.lab, "approve", DecisionBody(request_id, "", seen)), len(self.robot.heard)
        start_s = time.monotonic()
        self._client.call_async(SubmitStatement.Request(statement=envelope))
        self.wait_until(lambda: len(self.robot.heard) > count)
        return self.robot.heard[count][1] - start_s

    def approve_by_command(self, request_id: str) -> tuple[float, float]:
        """`opc deploy approve`: from its start, and from when it signed."""
        words = ["deploy", "approve", request_id, "--state", str(self.lab / "deployment")]
        for option, name in (("ranking", "ranking.json"), ("store", "store"), ("gate", "gate.yaml")):
            words += [f"--{option}", str(self.lab / name)]
        words += ["--scheduler", str(self.lab / "scheduler.yaml"), "--key"]
        words += [str(self.lab / "deployment" / "keys" / "ada.person.pem")]
        count, start_s = len(self.robot.heard), time.monotonic()
        command = [sys.executable, "-m", "opc_ros.cli.main", *words]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        self.wait_until(lambda: len(self.robot.heard) > count)
        heard_ns, heard_s = self.robot.heard[count]
        return heard_s - start_s, (heard_ns - self._signed_ns(request_id)) * 1e-9

    def _signed_ns(self, request_id: str) -> int:
        for line in read_audit_log(self.lab / "deployment" / "audit.jsonl"):
            if line.kind == "approve" and line.body["request_id"] == request_id:
                said = json.loads(base64.b64decode(line.body["statement"]["payload"]))
                return int(said["issued_ns"])
        raise AssertionError(request_id)

    def wait_until(self, is_true: Callable[[], bool], every_s: float = 0.002) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < deadline_s, "did not come true in time"
            time.sleep(every_s)


@contextmanager
def running(lab: Path) -> Iterator[Bench]:
    bench = Bench(lab)
    words = [word for name, value in scheduler_parameters(lab).items() for word in ("-p", f"{name}:={value}")]
    command = [sys.executable, "-m", "opc_ros.ros.scheduler_node", "--ros-args", *words]
    with (lab / "scheduler.log").open("w") as log, subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log) as child:
        try:
            yield bench
        finally:
            child.terminate()
            child.wait(timeout=PATIENCE_S)
            bench.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--approvals", type=int, default=40, help="statements sent over DDS (default: 40)")
    parser.add_argument("--commands", type=int, default=20, help="runs of `opc deploy approve` (default: 20)")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench_approval_") as name, own_domain(), running(Path(name)) as bench:
        sent, signed, begun = [], [], []
        for number in range(-WARM_UP, arguments.approvals):
            request_id = bench.make_waiting()
            took_s = bench.approve(request_id)
            if number >= 0:
                sent.append(took_s)
            bench.end(request_id)
        for _ in range(arguments.commands):
            request_id = bench.make_waiting()
            whole_s, after_s = bench.approve_by_command(request_id)
            begun.append(whole_s)
            signed.append(after_s)
            bench.end(request_id)
        load = os.getloadavg()[0]
    for what, times_s in (
        ("from the statement sent over DDS", sent),
        ("from signing in `opc deploy approve`", signed),
        ("from the start of `opc deploy approve`", begun),
    ):
        if times_s:
            median, late = np.percentile(np.array(times_s) * 1e3, (50, 95))
            print(
                f"{what}: median {median:.0f} ms, 95th percentile {late:.0f} ms, {late / GOAL_MS:.2f} of the goal "
                f"(below {GOAL_MS:g} ms), {len(times_s)} times"
            )
    print(f"load average {load:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
