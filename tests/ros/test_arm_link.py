"""What the link to an arm sends when it holds, and what makes it lose the arm; messages are passed to it directly."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("rclpy")

from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.trajectory import plan_joints
from opc_ros.episode import Frame
from opc_ros.errors import ArmLost
from opc_ros.ros import convert
from opc_ros.ros.arm_link import ArmLink
from opc_ros.ros.joint_messages import reading_to_msg
from tests.ros.twin_rig import SETTINGS as PATIENT

pytestmark = pytest.mark.ros

SETTINGS = dataclasses.replace(PATIENT, measurement_timeout_s=60.0, stamp_tolerance_s=60.0)
HERE = np.array([0.1, 0.5, 0.0, -1.4, 0.0, 1.0, 0.0])
SPEED = np.full(7, 0.2)
STILL = np.zeros(7)


class NoArm:
    """A transport on which commands are only recorded."""

    def __init__(self) -> None:
        self.sent: list[JointTrajectory] = []

    def begin(self) -> None: ...

    def find_missing(self) -> list[str]:
        return []

    def why_lost(self) -> str:
        return ""

    def beat(self) -> None: ...

    def send(self, msg: JointTrajectory) -> None:
        self.sent.append(msg)

    def grip(self, aperture_m: float) -> None: ...

    def lay_out(self, seed: int, timeout_s: float) -> None: ...

    def rest(self) -> None: ...

    def close(self) -> None: ...


class Bench:
    """A link without an arm; `see` takes the driver's part."""

    def __init__(self, *, use_sim_time: bool = False) -> None:
        self.way = NoArm()
        settings = dataclasses.replace(SETTINGS, connect_timeout_s=0.2) if use_sim_time else SETTINGS
        self.link = ArmLink(settings, make_way=lambda node, settings, complain: self.way, use_sim_time=use_sim_time)

    def see(self, joints: np.ndarray, speeds: np.ndarray, ago_s: float = 0.0) -> None:
        stamp_ns = time.time_ns() - round(ago_s * 1e9)
        self.link._on_joints(reading_to_msg(SETTINGS.joint_names, joints.tolist(), speeds.tolist(), stamp_ns))

    def show(self, image: bytes) -> None:
        frame = Frame(stamp_ns=time.time_ns(), encoding="jpeg", data=image)
        self.link._on_frame(convert.frame_to_msg(frame))

    def held(self) -> list[np.ndarray]:
        return [np.array(msg.points[0].positions) for msg in self.way.sent if len(msg.points) == 1]


@pytest.fixture
def bench(ros_domain: int) -> Iterator[Bench]:
    made = Bench()
    yield made
    made.link.close()


def test_a_hold_is_close_to_where_the_arm_is_and_is_not_repeated_once_it_is_there(bench: Bench) -> None:
    bench.see(HERE, SPEED)
    bench.link.hold()
    (held,) = bench.held()
    # It allows for the time since then, at most 0.1 s at 0.2 rad/s.
    assert ((held >= HERE) & (held <= HERE + 0.02 + 1e-9)).all()
    time_over_s = time.monotonic() + 0.05  # a hold lasts 0.02 s
    while time.monotonic() < time_over_s:
        bench.see(held, STILL)
    bench.link.hold()
    assert len(bench.held()) == 1


def test_without_any_measurement_nothing_is_sent(bench: Bench) -> None:
    bench.link.hold()
    assert not bench.way.sent


def test_before_the_first_time_on_clock_nothing_is_judged_by_its_timestamp(ros_domain: int) -> None:
    bench = Bench(use_sim_time=True)
    try:
        for _ in range(5):
            bench.see(HERE, STILL)
        bench.show(b"any")
        # Neither a fault nor a loss: they will be received again once the time is known.
        with pytest.raises(ArmLost, match=r"no time on /clock; no joint states on joint_states.*in 0\.2 s"):
            bench.link.connect()
    finally:
        bench.link.close()


def test_an_arm_commanded_to_move_is_held_before_it_does(bench: Bench) -> None:
    bench.see(HERE, STILL)
    bench.link.send(plan_joints(SETTINGS.joint_limits(), HERE, HERE + 0.3))
    bench.link.hold()
    np.testing.assert_allclose(bench.held(), [HERE], atol=1e-4)  # where that has taken it in a few milliseconds


def test_three_wrong_timestamps_in_a_row_lose_the_arm_and_hold_it(bench: Bench) -> None:
    bench.see(HERE, SPEED)
    for _ in range(2):
        bench.see(HERE, SPEED, ago_s=3600.0)
    bench.link.refuse_if_unfit()
    bench.see(HERE, SPEED, ago_s=3600.0)
    with pytest.raises(ArmLost, match=r"joint states stamped 3600\.\d+ s ago"):
        bench.link.refuse_if_unfit()
    assert len(bench.held()) == 1


def test_one_wrong_timestamp_is_skipped(bench: Bench) -> None:
    for _ in range(5):
        bench.see(HERE, SPEED, ago_s=-3600.0)
        bench.see(HERE, SPEED)
    bench.link.refuse_if_unfit()


def test_an_image_that_stays_while_the_tool_moves_loses_the_arm(bench: Bench) -> None:
    turned = HERE.copy()
    turned[0] += 0.05  # 3 cm for a tool 0.6 m from the base
    bench.see(HERE, STILL)
    bench.show(b"image")
    bench.see(turned, STILL)
    bench.show(b"image")
    bench.link.refuse_if_unfit()
    bench.show(b"image")
    with pytest.raises(ArmLost, match="camera: the same image again"):
        bench.link.refuse_if_unfit()
