"""Time from a stop in the lab's domain until an arm behind its gateway holds and rests, while a candidate plays.

python -m tests.benchmarks.bench_stop_gateway --stops 60 --load 2

Twin, gateway, policy runner and the candidate's confined worker are real processes; the stop arrives by topic, in the
lab's ROS domain, and reaches the driver only through the gateway.
"""

from __future__ import annotations

import argparse
import os
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from opc_interfaces.msg import RobotStatus
from rclpy.duration import Duration
from std_msgs.msg import Bool, String

from opc_ros.deployment.permit import Rung
from opc_ros.ros import topics
from tests.benchmarks.bench_stop import (
    AT_REST_RAD_S,
    MOVING_RAD_S,
    STATES_AT_REST,
    is_at_rest,
    make_lab,
    report,
    scoring,
    speed,
    stamp_ns,
)
from tests.ros.attack_rig import Rig, attacked
from tests.ros.releasing import Releaser
from tests.ros.twin_rig import ROBOT

EPISODES = 50  # of a permit: more than are played before a stop


class PlayingRig(Rig):
    """The arm at full speed, commanded by its candidate."""

    def runner_parameters(self) -> dict[str, Any]:
        return super().runner_parameters() | {"use_sim_time": False, "reduced_speed": 0.1}

    def gateway_parameters(self) -> dict[str, Any]:
        return super().gateway_parameters() | {"reduced_speed": 0.1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=60, help="how many to measure (default: 60)")
    parser.add_argument("--load", type=int, default=2, help="workers of `opc score` beside it (default: 2)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_stop_gateway_") as name:
        folder = Path(name)
        with attacked(folder / "lab", PlayingRig) as rig, scoring(make_lab(folder / "scored"), arguments.load):
            taken = measure(rig, arguments.stops)
            case = f"{arguments.load} scoring workers beside a load of {os.getloadavg()[0]:.1f}"
    for state, column in zip(("hold", "rest"), zip(*taken, strict=True), strict=True):
        report(f"stop through gateway and worker to {state}, {case}", column)
    return 0


def measure(rig: Rig, stops: int) -> list[tuple[float, float]]:
    """Milliseconds to hold and to rest, for each stop that met a moving arm."""
    node = rig.watcher.node
    publisher = node.create_publisher(Bool, "stop", topics.LATEST)
    beat = node.create_publisher(String, "/deployment/heartbeat", topics.RECORDED)  # the scheduler's part
    rig.watcher.wait_until(lambda: publisher.get_subscription_count() >= 2 and beat.get_subscription_count() >= 1)
    beat.publish(String(data="beat"))  # before the first goal, not a fifth of a second after it
    assert beat.wait_for_all_acked(Duration(seconds=30.0))
    node.create_timer(0.2, lambda: beat.publish(String(data="beat")))
    releaser = Releaser(node, ROBOT, rig.folder / "deployment" / "keys")
    rng = np.random.default_rng(0)
    taken: list[tuple[float, float]] = []
    while len(taken) < stops:
        found = stop_once(rig, publisher, releaser, float(rng.uniform(0.0, 0.5)))
        taken += [found] if found is not None else []
    return taken


def stop_once(rig: Rig, publisher: Any, releaser: Releaser, after_s: float) -> tuple[float, float] | None:
    watcher = rig.watcher
    rig.wait_for_runner(RobotStatus.IDLE)
    lease_id = secrets.token_hex(4)
    ended = rig.send(rig.issue(rung=Rung.FULL, episodes=EPISODES, lease_id=lease_id), lease_id=lease_id)
    watcher.joints.clear()
    watcher.wait_until(lambda: ended.done() or (bool(watcher.joints) and speed(watcher.joints[-1]) > MOVING_RAD_S))
    if ended.done():  # a node still obeyed the previous stop
        assert "stopped" in ended.result().result.message, ended.result().result.message
        return None
    time.sleep(after_s)  # not to avoid a race: the moment within the motion is part of the experiment
    watcher.joints.clear()
    watcher.statuses.clear()
    stopped_ns = time.time_ns()
    publisher.publish(Bool(data=True))
    watcher.wait_until(lambda: len(watcher.joints) > STATES_AT_REST and is_at_rest(watcher.joints[-STATES_AT_REST:]))
    watcher.wait_for_state(RobotStatus.STOPPED)
    held_ns = min(stamp_ns(status) for status in watcher.statuses if status.state == RobotStatus.STOPPED)
    states = [state for state in tuple(watcher.joints) if stamp_ns(state) > stopped_ns]

    def is_released() -> bool:
        releaser.release()
        is_idle = rig.statuses[-1].state == RobotStatus.IDLE
        return bool(ended.done()) and is_idle and watcher.statuses[-1].state != RobotStatus.STOPPED

    watcher.wait_until(is_released)
    if speed(states[0]) < MOVING_RAD_S:
        return None
    last_moving = max(index for index, state in enumerate(states) if speed(state) >= AT_REST_RAD_S)
    return (held_ns - stopped_ns) * 1e-6, (stamp_ns(states[last_moving + 1]) - stopped_ns) * 1e-6


if __name__ == "__main__":
    raise SystemExit(main())
