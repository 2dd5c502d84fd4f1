"""Time from a stop to an arm at rest, on the twin: real processes, real DDS, full pictures, with and without load."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
from opc_interfaces.msg import RobotStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from opc_ros.errors import ArmStopped
from opc_ros.grasp import GraspAction
from opc_ros.ros import convert, topics
from opc_ros.ros.ros_arm import RosArm
from tests.ros.twin_rig import SETTINGS, TwinProcess, Watcher, own_domain

AT_REST_RAD_S = 0.01
MOVING_RAD_S = 0.1
STATES_AT_REST = 20  # in a row: nothing may move again
GOAL_MS = 100.0
# The machine may be so busy that pictures take long; they are not what is measured.
PATIENT = dataclasses.replace(
    SETTINGS,
    measurement_timeout_s=5.0,
    connect_timeout_s=120.0,
    camera=dataclasses.replace(SETTINGS.camera, timeout_s=60.0),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stops", type=int, default=60, help="how many to measure in each case (default: 60)")
    parser.add_argument("--load", type=int, default=2, help="processes that multiply matrices meanwhile (default: 2)")
    parser.add_argument("--niceness", type=int, default=0, help="of the twin; below 0 wants leave (default: 0)")
    arguments = parser.parse_args()
    for load in sorted({0, arguments.load}):
        with own_domain(), busy(load):
            measure(arguments.stops, load, arguments.niceness)
    return 0


def measure(stops: int, load: int, niceness: int) -> None:
    twin = TwinProcess(real_time_factor=1.0, image_size=472, camera_hz=10.0, command_timeout_s=5.0, niceness=niceness)
    others = os.getloadavg()[0]
    watcher, arm = Watcher(), RosArm(PATIENT)
    rng = np.random.default_rng(0)
    try:
        arm.begin(seed=0)
        publisher = watcher.node.create_publisher(Bool, "stop", topics.LATEST)
        watcher.wait_until(lambda: publisher.get_subscription_count() >= 2)
        ways: tuple[tuple[str, Callable[[], None], Callable[[], None]], ...] = (
            ("by topic", lambda: publisher.publish(Bool(data=True)), lambda: publisher.publish(Bool(data=False))),
            ("by RosArm", lambda: arm.stop("measured"), arm.release),
        )
        for name, stop, release in ways:
            times: list[tuple[float, float]] = []
            while len(times) < stops:
                side = 1 - 2 * (len(times) % 2)
                taken = stop_once(arm, watcher, stop, release, side, float(rng.uniform(0.1, 0.35)))
                times += [taken] if taken is not None else []
            case = f"{load} busy processes beside a load of {others:.1f}, niceness {niceness}"
            for state, column in zip(("hold", "rest"), zip(*times, strict=True), strict=True):
                report(f"stop {name} to {state}, {case}", column)
    finally:
        arm.close()
        watcher.close()
        twin.stop()


def stop_once(
    arm: RosArm, watcher: Watcher, stop: Callable[[], None], release: Callable[[], None], side: int, after_s: float
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
    release()
    watcher.wait_until(lambda: arm._link.switch.reason is None)
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
    return max(map(abs, state.velocity))


def report(what: str, times_ms: Sequence[float]) -> None:
    middle, high = np.percentile(times_ms, (50, 99))
    print(
        f"{what}: 99th percentile {high:.0f} ms, median {middle:.0f} ms, largest {max(times_ms):.0f} ms, "
        f"{high / GOAL_MS:.2f} of the goal (goal: below {GOAL_MS:.0f} ms) over {len(times_ms)} stops",
        flush=True,
    )


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that compute as scoring does."""
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=multiply, daemon=True) for _ in range(count)]
    for child in children:
        child.start()
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.join()


def multiply() -> None:
    matrix = np.random.default_rng(0).standard_normal((600, 600))
    while True:
        matrix = matrix @ matrix
        matrix /= np.abs(matrix).max()


if __name__ == "__main__":
    sys.exit(main())
