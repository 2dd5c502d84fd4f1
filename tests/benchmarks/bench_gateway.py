"""What the gateway adds to a trajectory's time to the driver, compared with the direct path in the same run.

python -m tests.benchmarks.bench_gateway
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rclpy
from rclpy.context import Context
from rclpy.node import Node

from opc_ros.arms.trajectory import plan_hold, plan_joints
from opc_ros.deployment.arm_lease import LeaseRequest, sign_drive
from opc_ros.deployment.keys import create_keys, export_public_keys
from opc_ros.deployment.signing import find_signer, load_machine_key, make_machine_key, make_person_key
from opc_ros.ros.arm_way import ArmWay, DirectWay
from opc_ros.ros.gateway_way import make_gateway_way
from opc_ros.ros.joint_messages import trajectory_to_msg
from tests.benchmarks.trajectory_sink import name_of
from tests.domains import own_domain, take_domain
from tests.ros.twin_rig import ROBOT, ROOT, SETTINGS

GOAL_MS = 5.0
WARM_UP = 20
PAUSE_S = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=500, help="on each way (default: 500)")
    count = parser.parse_args().trajectories
    with tempfile.TemporaryDirectory(prefix="bench_gateway_") as folder, own_domain(), take_domain() as domain:
        keys = make_keys(Path(folder))
        lab, arm_domain = Path(folder), int(domain)
        with gateway(lab, arm_domain), sink(arm_domain) as came, ways(lab, keys, arm_domain) as both:
            sent = send(both, count)
            load = os.getloadavg()[0]
    report(sent, came, load)
    return 0


def make_keys(folder: Path) -> Path:
    keys = folder / "keys"
    create_keys(keys)
    make_person_key(keys, "ada")
    make_machine_key(folder / ROBOT / "keys", ROBOT, "robot", keys)
    export_public_keys(keys, folder / ROBOT / "keys")
    return keys


@contextmanager
def gateway(folder: Path, domain: int) -> Iterator[None]:
    parameters = {
        "arm_config": "arm_twin.yaml",
        "arm_domain": domain,
        "keys": folder / ROBOT / "keys",
        "state": folder / ROBOT,
        "silence_s": 60.0,
        "stale_s": 60.0,
    }
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    command = [sys.executable, "-m", "opc_ros.ros.arm_gateway_node", "--ros-args", "-r", f"__ns:=/{ROBOT}", *words]
    with subprocess.Popen(command, cwd=ROOT) as child:
        try:
            yield
        finally:
            child.terminate()


@contextmanager
def sink(domain: int) -> Iterator[dict[str, int]]:
    """When each trajectory arrived, by name; filled in at the end."""
    came: dict[str, int] = {}
    environment = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
    command = [sys.executable, "-m", "tests.benchmarks.trajectory_sink"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield came
        finally:
            child.terminate()
            said, _ = child.communicate()
        came |= json.loads(said[said.index("{") :])


@contextmanager
def ways(folder: Path, keys: Path, domain: int) -> Iterator[dict[str, ArmWay]]:
    """A node in the arm's domain, as when drivers and runners shared one, and a commander at the socket."""
    context = Context()
    rclpy.init(args=[], context=context, domain_id=domain)
    node = Node("commander", namespace=ROBOT, context=context, use_global_arguments=False)
    direct = DirectWay(node, SETTINGS, print)
    signs = find_signer(keys, keys / "ada.person.pem")

    def ask() -> LeaseRequest:
        return LeaseRequest(ROBOT, "drive", sign_drive(signs.person, signs.signer, ROBOT, "bench", time.time_ns()))

    make = make_gateway_way(folder / ROBOT / "gateway", ask, load_machine_key(folder / ROBOT / "keys", ROBOT))
    through = make(node, SETTINGS, print)
    hold = trajectory_to_msg(plan_hold(np.zeros(len(SETTINGS.joint_names))), SETTINGS.joint_names)
    deadline_s = time.monotonic() + 60.0
    is_through = False
    while direct.find_missing() or not is_through:
        assert time.monotonic() < deadline_s, direct.find_missing() or through.why_lost()
        through.begin()
        through.send(hold)
        time.sleep(0.5)
        is_through = not through.why_lost()  # once the gateway hears joint states
    try:
        yield {"direct": direct, "gateway": through}
    finally:
        through.close()
        node.destroy_node()
        rclpy.try_shutdown(context=context)


def send(both: dict[str, ArmWay], count: int) -> dict[str, dict[str, int]]:
    """Alternating, so that both face the same load; returns when each was sent, by name."""
    sent: dict[str, dict[str, int]] = {name: {} for name in both}
    here = np.zeros(len(SETTINGS.joint_names))
    there, limits = here.copy(), SETTINGS.joint_limits()
    there[0] = 0.05  # further than a hold, so that the gateway makes all of its checks
    for number in range(-WARM_UP, count):
        for name, way in both.items():
            there[0] += 1e-5  # its goal is its name: nothing else in a message reaches the driver unchanged
            msg = trajectory_to_msg(plan_joints(limits, here, there), SETTINGS.joint_names)
            start_ns = time.monotonic_ns()
            way.beat()
            way.send(msg)
            if number >= 0:
                sent[name][name_of(msg)] = start_ns
            time.sleep(PAUSE_S)
    assert not both["gateway"].why_lost(), both["gateway"].why_lost()
    return sent


def report(sent: dict[str, dict[str, int]], came: dict[str, int], load: float) -> None:
    figures = {}
    for name, starts in sent.items():
        took_ms = [(came[each] - start_ns) * 1e-6 for each, start_ns in starts.items() if each in came]
        if not took_ms:
            sys.exit(f"{name}: none of {len(starts)} trajectories came")
        figures[name] = np.percentile(took_ms, (50, 99))
        median, high = figures[name]
        lost = len(starts) - len(took_ms)
        print(f"{name}: median {median:.2f} ms, 99th percentile {high:.2f} ms, {lost} of {len(starts)} lost")
    median, high = figures["gateway"] - figures["direct"]
    print(
        f"the gateway adds {median:.2f} ms at the median and {high:.2f} ms at the 99th percentile, "
        f"{high / GOAL_MS:.2f} of the goal (goal: below {GOAL_MS:g} ms), beside a load of {load:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
