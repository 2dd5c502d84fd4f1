"""A halt reaches every robot, whether the scheduler is busy or dead, and says which robots have not confirmed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.srv import HaltDeployment, SubmitStatement

from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.statement import RequestBody
from opc_ros.policies.candidate import read_candidate
from tests.deployment.lab import make_lab, say, scheduler_parameters
from tests.ros.conftest import ROOT, Probe, Process
from tests.ros.idle_robots import IdleRobot, make_robots

pytestmark = pytest.mark.ros

NAMES = tuple(f"arm{number}" for number in range(1, 8))
ALIVE = NAMES[:-1]
EPISODES = 50_000
LATEST_S = 0.5
Robots = dict[str, IdleRobot]


@pytest.fixture
def robots(tmp_path: Path, probe: Probe) -> Iterator[Robots]:
    """Seven of them, of which the rules that ship with the product know only one."""
    make_lab(tmp_path, {name: ["full"] for name in NAMES}, rung_episodes=(0, 0, 4), request_episodes=200)
    made = make_robots(probe.node, NAMES, tmp_path)
    yield made
    for robot in made.values():
        robot.close()


@pytest.fixture
def large_store(tmp_path: Path, robots: Robots) -> None:
    """Beside the robots' lab, before its scheduler starts, and with the snapshot that the lab's ranking names."""
    from tests.benchmarks.bench_store_scale import make_store

    make_store(tmp_path / "store", EPISODES, robots=len(NAMES), per_day=1000)


@pytest.fixture
def scheduler(tmp_path: Path, start: Callable[..., Process], probe: Probe, robots: Robots) -> Process:
    """Every robot works, and the last one then falls silent."""
    process = start("tests.ros.hanging_scheduler", "/", **scheduler_parameters(tmp_path))
    candidate = read_candidate(tmp_path / "candidates" / "c0")
    ask = say(tmp_path, "request", RequestBody(candidate.id))
    answer = probe.call(SubmitStatement, "/deployment/statement", statement=ask)
    assert answer.success, answer.message
    probe.until(lambda: all(robot.permit_id for robot in robots.values()), "not every robot gets a lease")
    robots[NAMES[-1]].is_dead = True
    return process


def halt_as_a_person(lab: Path, probe: Probe) -> tuple[int, dict[str, list[str]]]:
    words = ["deploy", "halt", "--state", str(lab / "deployment"), "--json", "--timeout", "8"]
    command = [sys.executable, "-m", "opc_ros.cli.main", *words, "--person", "ada", "--reason", b"smoke \xff"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        probe.until(lambda: child.poll() is not None, "the command does not end")
        assert child.stdout is not None
        # DDS comments on ports that killed programs on this machine have left.
        return child.returncode, json.loads(next(line for line in child.stdout if "RTPS_" not in line))


def test_a_halt_reaches_all_robots_while_the_scheduler_hangs(
    tmp_path: Path, probe: Probe, robots: Robots, scheduler: Process
) -> None:
    (tmp_path / "deployment" / "hang").touch()
    answer = probe.call(HaltDeployment, "/deployment/halt", person="ada", reason="smoke")
    assert (answer.success, tuple(answer.robots)) == (True, NAMES), answer.message
    probe.until(lambda: not any(robots[name].permit_id for name in ALIVE), "a robot goes on")
    assert all(robots[name].serial >= answer.revocation_serial for name in ALIVE)
    (tmp_path / "deployment" / "hang").unlink()


def test_a_person_is_told_who_has_not_confirmed_though_the_scheduler_is_stopped(
    tmp_path: Path, probe: Probe, robots: Robots, scheduler: Process
) -> None:
    scheduler.signal(signal.SIGSTOP)
    code, said = halt_as_a_person(tmp_path, probe)
    assert code == 3
    assert (said["halted"], said["confirmed"]) == (list(NAMES), list(ALIVE))
    assert (said["unconfirmed"], said["idle"]) == ([NAMES[-1]], [])
    taken = {name: list(robot.taken) for name, robot in robots.items()}
    # The scheduler may have been stopped while it held queue or audit log; then the halt waits in a file beside them.
    scheduler.signal(signal.SIGCONT)
    with DeploymentFolder(tmp_path / "deployment").open() as (queue, _):
        probe.until(lambda: not set(ALIVE) & {lease.robot for lease in queue.open_leases()}, "leases stay open")
        by = {"ada: smoke \\udcff"}
        probe.until(lambda: {robot.halted_by for robot in queue.robots().values()} == by, "not all are halted")
        assert set(queue.robots()) == set(NAMES)
    assert {name: robot.taken for name, robot in robots.items()} == taken


@pytest.mark.slow
@pytest.mark.usefixtures("large_store")
def test_a_halt_takes_half_a_second_at_most_beside_a_store_of_fifty_thousand_episodes(
    probe: Probe, robots: Robots, scheduler: Process
) -> None:
    said_s = time.monotonic()
    answer = probe.call(HaltDeployment, "/deployment/halt", person="ada", reason="smoke")
    assert (answer.success, tuple(answer.robots)) == (True, NAMES), answer.message
    probe.until(lambda: not any(robots[name].permit_id for name in ALIVE), "a robot goes on")
    took = {name: heard_s - said_s for name in ALIVE if (heard_s := robots[name].revoked_s) is not None}
    print(f"revoked after {max(took.values()):.3f} s at the latest")
    assert took.keys() == set(ALIVE)
    assert max(took.values()) < LATEST_S
