"""Who may hold an unmeasured arm where its motion should have got to: nobody whom another hold may have preceded."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus

from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory
from opc_ros.ros import guard_word, hold_sender
from opc_ros.ros.guard_word import GuardWord
from opc_ros.ros.hold_sender import HoldSender
from opc_ros.ros.joint_messages import JointReading

HOME = np.zeros(7)
SPEED = np.full(7, 0.3)
SETTINGS = ArmSettings(measurement_timeout_s=0.25, guard="arm_guard/status", guard_timeout_s=0.3)


class Clock:
    """Takes the place of the module `time`."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class NoNode:
    """The test itself publishes the guard's status."""

    def create_subscription(self, *arguments: object) -> None: ...


class Bench:
    """An arm that is commanded to turn all joints at 0.3 rad/s for a second, and is last measured as that begins."""

    def __init__(self, clock: Clock, settings: ArmSettings) -> None:
        self.clock = clock
        self.sent: list[Trajectory] = []
        self.guard = GuardWord(NoNode(), settings.guard, settings.guard_timeout_s, self._on_guard)  # type: ignore[arg-type]
        self.sender = HoldSender(settings, self.guard, self._newest, self.sent.append)
        self.seen_s, self.seen = clock.seconds, JointReading(0, HOME, SPEED)
        self.say(RobotStatus.RUNNING)
        motion = Trajectory(np.array([0.0, 1.0]), np.stack([HOME, HOME + 0.3]), np.stack([SPEED, SPEED]))
        self.sender.note(motion)

    def _newest(self) -> tuple[float, JointReading]:
        return self.seen_s, self.seen

    def _on_guard(self) -> None:
        self.sender.hear_guard()

    def say(self, state: int) -> None:
        self.guard._hear(RobotStatus(state=state))

    def wait(self, seconds: float) -> None:
        """The process is alive: it says so twenty times a second."""
        for _ in range(round(seconds / 0.05)):
            self.clock.seconds += 0.05
            self.sender.stay_awake()

    def held_rad(self) -> list[float]:
        return [round(float(each.goal_rad[0]), 6) for each in self.sent]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (guard_word, hold_sender):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def bench(clock: Clock) -> Bench:
    return Bench(clock, SETTINGS)


def test_an_arm_that_is_seen_is_held_without_the_guards_word(bench: Bench, clock: Clock) -> None:
    clock.seconds += 0.02
    bench.sender.hold()
    # 0.02 s at 0.3 rad/s.
    assert bench.held_rad() == [0.006]


def test_an_arm_that_was_seen_a_moment_ago_is_held_where_it_is_seen_next(bench: Bench, clock: Clock) -> None:
    clock.seconds += 0.06
    bench.sender.hold()
    assert bench.held_rad() == []
    # The guard has already held it, so it is not where its motion should be.
    bench.seen_s, bench.seen = clock.seconds, JointReading(0, HOME + 0.001, np.zeros(7))
    bench.sender.hear_joints()
    bench.sender.hear_joints()
    assert bench.held_rad() == [0.001]


def test_a_guard_that_has_fallen_silent_is_not_waited_for(bench: Bench, clock: Clock) -> None:
    bench.wait(0.35)
    bench.seen_s = clock.seconds - 0.06
    bench.seen = JointReading(0, HOME + 0.087, SPEED)
    bench.sender.hold()
    # It was following its motion, which has continued for 0.06 s.
    assert bench.held_rad() == [0.105]


def test_an_unseen_arm_is_held_with_the_guards_next_word(bench: Bench) -> None:
    bench.wait(0.25)
    bench.sender.hold()
    assert bench.held_rad() == []
    bench.say(RobotStatus.RUNNING)
    # By then it has been moving for 0.25 s.
    assert bench.held_rad() == [0.075]
    bench.say(RobotStatus.RUNNING)
    assert len(bench.sent) == 1


@pytest.mark.parametrize("state", [RobotStatus.FAULT, RobotStatus.HOLDING, RobotStatus.STOPPED, RobotStatus.IDLE])
def test_an_unseen_arm_that_the_guard_has_held_is_left_to_it(bench: Bench, state: int) -> None:
    bench.wait(0.1)
    bench.say(state)
    bench.wait(0.15)
    bench.sender.hold()
    bench.say(state)
    bench.say(RobotStatus.RUNNING)
    assert bench.held_rad() == []


def test_who_has_slept_tells_an_unseen_arm_nothing_though_the_guard_watches_again(bench: Bench, clock: Clock) -> None:
    clock.seconds += 0.3  # no heartbeat for this long: the guard takes that for death, and holds
    bench.say(RobotStatus.RUNNING)
    bench.sender.hold()
    bench.sender.stay_awake()
    bench.say(RobotStatus.RUNNING)
    assert bench.held_rad() == []


def test_an_arm_without_guard_is_held_at_once(clock: Clock) -> None:
    bench = Bench(clock, dataclasses.replace(SETTINGS, guard=""))
    bench.wait(0.25)
    bench.sender.hold()
    assert bench.held_rad() == [0.075]
