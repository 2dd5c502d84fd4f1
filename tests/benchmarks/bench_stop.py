"""Time from a stop to hold and rest, on the twin: real processes, real DDS, full images, while `opc score` runs."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from opc_interfaces.msg import RobotStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from opc_ros.errors import ArmStopped
from opc_ros.grasp import GraspAction
from opc_ros.ros import convert, topics
from opc_ros.ros.ros_arm import RosArm
from tests.domains import own_domain
from tests.policies.making import make_candidate, make_episodes, make_store
from tests.ros.releasing import Releaser, make_people
from tests.ros.twin_rig import ROBOT, ROOT, SETTINGS, TwinProcess, Watcher

AT_REST_RAD_S = 0.01
MOVING_RAD_S = 0.1
STATES_AT_REST = 20  # in a row: nothing may move again
GOAL_MS = 100.0
# The machine may be so busy that images are late; they are not what is measured here.
PATIENT = dataclasses.replace(
    SETTINGS,
    measurement_timeout_s=5.0,
    connect_timeout_s=120.0,
    camera=dataclasses.replace(SETTINGS.camera, timeout_s=60.0),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stops", type=int, default=60, help="how many to measure in each case (default: 60)")
    parser.add_argument("--load", type=int, nargs="+", default=[0, 2], help="workers of `opc score` (default: 0 2)")
    parser.add_argument("--niceness", type=int, default=0, help="of the twin; below 0 wants leave (default: 0)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_stop_") as folder:
        lab = make_lab(Path(folder))
        for load in arguments.load:
            with own_domain(), scoring(lab, load):
                measure(arguments.stops, load, arguments.niceness, make_people(Path(folder) / f"keys{load}"))
    return 0


def measure(stops: int, load: int, niceness: int, keys: Path) -> None:
    twin = TwinProcess(
        real_time_factor=1.0, image_size=472, camera_hz=10.0, command_timeout_s=5.0, niceness=niceness, keys=keys
    )
    others = os.getloadavg()[0]
    watcher, arm = Watcher(), RosArm(PATIENT, keys=keys)
    rng = np.random.default_rng(0)
    try:
        arm.begin(seed=0)
        publisher = watcher.node.create_publisher(Bool, "stop", topics.LATEST)
        watcher.wait_until(lambda: publisher.get_subscription_count() >= 2)
        releaser = Releaser(watcher.node, ROBOT, keys)
        ways: tuple[tuple[str, Callable[[], None]], ...] = (
            ("by topic", lambda: publisher.publish(Bool(data=True))),
            ("by RosArm", lambda: arm.stop("measured")),
        )
        for name, stop in ways:
            times: list[tuple[float, float]] = []
            while len(times) < stops:
                side = 1 - 2 * (len(times) % 2)
                taken = stop_once(arm, watcher, stop, releaser, side, float(rng.uniform(0.1, 0.35)))
                times += [taken] if taken is not None else []
            case = f"{load} scoring workers beside a load of {others:.1f}, niceness {niceness}"
            for state, column in zip(("hold", "rest"), zip(*times, strict=True), strict=True):
                report(f"stop {name} to {state}, {case}", column)
    finally:
        arm.close()
        watcher.close()
        twin.stop()


def stop_once(
    arm: RosArm, watcher: Watcher, stop: Callable[[], None], releaser: Releaser, side: int, after_s: float
) -> tuple[float, float] | None:
    """Milliseconds until the twin held and until its joints were measured at rest; None if the arm was not moving."""
    arm.begin(seed=0)
    mover = threading.Thread(target=move, args=(arm, side))
    mover.start()
    time.sleep(after_s)
    watcher.joints.clear()
    watcher.statuses.clear()
    stopped_ns = time.time_ns()
    stop()
    mover.join()
    watcher.wait_until(lambda: len(watcher.joints) > STATES_AT_REST and is_at_rest(watcher.joints[-STATES_AT_REST:]))
    watcher.wait_for_state(RobotStatus.STOPPED)
    held_ns = min(stamp_ns(status) for status in watcher.statuses if status.state == RobotStatus.STOPPED)
    states = [state for state in watcher.joints if stamp_ns(state) > stopped_ns]

    def is_released() -> bool:
        releaser.release()
        return arm._link.switch.reason is None and watcher.statuses[-1].state != RobotStatus.STOPPED

    watcher.wait_until(is_released)
    if speed(states[0]) < MOVING_RAD_S:
        return None
    last_moving = max(index for index, state in enumerate(states) if speed(state) >= AT_REST_RAD_S)
    return (held_ns - stopped_ns) * 1e-6, (stamp_ns(states[last_moving + 1]) - stopped_ns) * 1e-6


def move(arm: RosArm, side: int) -> None:
    with suppress(ArmStopped):
        arm.apply(GraspAction(displacement_m=(0.0, side * 0.08, 0.0), rotation_rad=side * 0.7))


def stamp_ns(msg: JointState | RobotStatus) -> int:
    return convert.stamp_to_ns(msg.header.stamp)


def is_at_rest(states: list[JointState]) -> bool:
    return all(speed(state) < AT_REST_RAD_S for state in states)


def speed(state: JointState) -> float:
    return float(max(map(abs, state.velocity)))


def report(what: str, times_ms: Sequence[float]) -> None:
    middle, high = np.percentile(times_ms, (50, 99))
    print(
        f"{what}: 99th percentile {high:.0f} ms, median {middle:.0f} ms, largest {max(times_ms):.0f} ms, "
        f"{high / GOAL_MS:.2f} of the goal (goal: below {GOAL_MS:.0f} ms) over {len(times_ms)} stops",
        flush=True,
    )


def make_lab(folder: Path) -> Path:
    """A store with full images and candidates of the usual size: some minutes of scoring."""
    make_store(folder / "store", make_episodes(100, image_size=472))
    for seed in range(6):
        make_candidate(folder / "candidates" / f"c{seed}", seed=seed, image_size=96)
    return folder


@contextmanager
def scoring(lab: Path, workers: int) -> Iterator[None]:
    """`opc score`, over and over from scratch, in a process of its own."""
    is_over = threading.Event()

    def keep_scoring() -> None:
        for number in itertools.count():
            out = lab / f"scores{workers}-{number}"
            words = ["score", "--store", lab / "store", "--candidates", lab / "candidates", "--scores", out]
            command = [sys.executable, "-m", "opc_ros.cli.main", *map(str, words), "--workers", str(workers)]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
                while child.poll() is None and not is_over.wait(0.1):
                    pass
                child.kill()
            if is_over.is_set():
                return
            assert child.returncode == 0, "scoring failed"

    keeper = threading.Thread(target=keep_scoring)
    if workers:
        keeper.start()
    try:
        yield
    finally:
        is_over.set()
        if workers:
            keeper.join()


if __name__ == "__main__":
    sys.exit(main())
