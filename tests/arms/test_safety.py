from __future__ import annotations

import numpy as np
import pytest

from opc_ros.arms.kinematics import ARM_MODELS
from opc_ros.arms.safety import JointLimits, StopSwitch, Watchdog, WorkspaceBox
from opc_ros.errors import ArmStopped

R820 = ARM_MODELS["lbr_iiwa_14_r820"]
BOX = WorkspaceBox(low_m=(0.4, -0.2, 0.02), high_m=(0.7, 0.2, 0.5))


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_position_outside_the_box_is_clamped_and_each_axis_named():
    position, lines = BOX.clamp((0.8, 0.0, 0.0))
    assert position == (0.7, 0.0, 0.02)
    assert lines == (
        "tool x is 0.8000 m, allowed from 0.4000 to 0.7000",
        "tool z is 0.0000 m, allowed from 0.0200 to 0.5000",
    )


def test_a_position_inside_the_box_stays():
    assert BOX.clamp((0.5, 0.1, 0.3)) == ((0.5, 0.1, 0.3), ())


def test_a_position_on_the_edge_is_put_inside_without_a_word_within_a_tenth_of_a_millimetre():
    assert BOX.clamp((0.5, 0.1, 0.01995)) == ((0.5, 0.1, 0.02), ())
    assert len(BOX.clamp((0.5, 0.1, 0.0198))[1]) == 1


def test_a_box_turned_inside_out_is_refused():
    with pytest.raises(ValueError, match=r"along y is from 0\.2 to 0\.2 m"):
        WorkspaceBox(low_m=(0.4, 0.2, 0.0), high_m=(0.7, 0.2, 0.5))


def test_joint_positions_are_clamped_to_the_datasheet_less_the_margin():
    limits = JointLimits(R820, margin_deg=2.0)
    joints, lines = limits.clamp_positions(np.radians([0, 119, 0, -130, 0, 0, 174]))
    assert np.degrees(joints) == pytest.approx([0, 118, 0, -118, 0, 0, 173])
    assert lines == (
        "joint 2 is +119.00 deg, allowed +-118.00",
        "joint 4 is -130.00 deg, allowed +-118.00",
        "joint 7 is +174.00 deg, allowed +-173.00",
    )


def test_a_joint_that_is_not_a_number_is_a_violation():
    assert JointLimits(R820).position_violations(np.array([np.nan, 0, 0, 0, 0, 0, 0])) != ()


def test_a_step_that_is_too_fast_is_shortened_in_its_own_direction():
    # Joint 4 may turn at 75 deg/s: in 10 ms 0.75 deg, a third of what is asked; joint 1 gives way with it.
    joints, line = JointLimits(R820).clamp_step(np.zeros(7), np.radians([0.3, 0, 0, 2.25, 0, 0, 0]), 0.01)
    assert np.degrees(joints) == pytest.approx([0.1, 0, 0, 0.75, 0, 0, 0])
    assert line == "joint 4 would turn at 225.0 deg/s, allowed 75.0"


def test_half_speed_halves_every_velocity():
    assert np.degrees(JointLimits(R820, speed_fraction=0.5).velocity_rad_s) == pytest.approx(
        [42.5, 42.5, 50, 37.5, 65, 67.5, 67.5]
    )


@pytest.mark.parametrize("speed", [0.0, -0.1, 1.1])
def test_a_speed_beyond_the_datasheet_is_refused(speed):
    with pytest.raises(ValueError, match="speed fraction"):
        JointLimits(R820, speed_fraction=speed)


def test_a_pressed_stop_refuses_until_it_is_lifted():
    switch = StopSwitch("arm1")
    switch.refuse_if_pressed()
    assert switch.press("door opened", stamp_ns=10)
    with pytest.raises(ArmStopped, match=r"arm arm1: stopped \(door opened\); release it first"):
        switch.refuse_if_pressed()
    assert not switch.press("again", stamp_ns=11)
    assert switch.reason == "door opened"
    assert switch.lift(stamp_ns=12)
    switch.refuse_if_pressed()


def test_a_release_that_is_older_than_the_stop_is_ignored():
    switch = StopSwitch("arm1")
    switch.press("door opened", stamp_ns=20)
    assert not switch.lift(stamp_ns=19)
    assert switch.reason == "door opened"


def test_a_stop_counts_even_if_its_clock_is_behind():
    switch = StopSwitch("arm1")
    switch.press("door opened", stamp_ns=20)
    switch.lift(stamp_ns=30)
    assert switch.press("gate opened", stamp_ns=25)
    assert switch.reason == "gate opened"


def test_a_watchdog_sleeps_until_the_first_sign_of_life():
    clock = Clock()
    watchdog = Watchdog("heartbeats", 0.5, clock)
    clock.seconds += 60.0
    assert (watchdog.is_awake, watchdog.is_expired, watchdog.bark()) == (False, False, "")


def test_a_watchdog_barks_once_for_each_silence():
    clock = Clock()
    watchdog = Watchdog("heartbeats", 0.5, clock)
    watchdog.feed()
    clock.seconds += 0.5
    assert watchdog.bark() == ""
    clock.seconds += 0.25
    assert watchdog.bark() == "heartbeats: none for 0.75 s, allowed 0.50"
    assert watchdog.bark() == ""
    assert watchdog.is_expired
    assert watchdog.feed()
    assert not watchdog.is_expired
    assert not watchdog.feed()
    clock.seconds += 1.0
    assert watchdog.bark() == "heartbeats: none for 1.00 s, allowed 0.50"
