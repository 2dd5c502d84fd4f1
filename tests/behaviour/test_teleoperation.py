from __future__ import annotations

import numpy as np
import pytest

from opc_ros.behaviour.teleoperation import Gamepad, StickLayout, Teleoperation, TeleoperationSettings
from opc_ros.errors import EpisodeStopped
from opc_ros.grasp import Observation, ToolState

SETTINGS = TeleoperationSettings(speed_m_s=0.1, turn_rad_s=1.0, step_s=0.5, idle_s=10.0, stale_s=0.5)
SEEN = Observation(stamp_ns=0, image=np.zeros((8, 8, 3), np.uint8), tool=ToolState(0.6, 0.0, 0.2, 0.0, 0.08))


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make() -> tuple[Teleoperation, Gamepad, Clock]:
    clock = Clock()
    person = Teleoperation(SETTINGS, now=clock)
    person.begin(0)
    return person, Gamepad(person, StickLayout(), SETTINGS), clock


def test_a_stick_half_way_forward_is_half_the_speed_for_one_step():
    person, pad, _ = make()
    pad.hear([0.0, 0.5, 0.0, 0.0, 0.0], [0] * 4)
    # 0.5 * 0.1 m/s * 0.5 s
    assert person.choose(SEEN).displacement_m == pytest.approx((0.025, 0.0, 0.0))


def test_a_stick_at_rest_is_no_action_and_its_drift_none_either():
    person, pad, clock = make()
    pad.hear([0.05, 0.09, 0.0, 0.0, 0.0], [0] * 4)
    clock.seconds = 11.0
    assert person._read() is None


def test_a_button_counts_once_for_each_time_it_goes_down():
    person, pad, _ = make()
    for _ in range(3):
        pad.hear([0.0] * 5, [1, 0, 0, 0])
    assert person.choose(SEEN).close_gripper
    assert person._read() is None
    pad.hear([0.0] * 5, [0, 0, 0, 0])
    pad.hear([0.0] * 5, [0, 1, 0, 1])
    last = person.choose(SEEN)
    assert (last.open_gripper, last.terminate) == (True, True)


def test_open_and_close_at_once_opens():
    person, pad, _ = make()
    pad.hear([0.0] * 5, [1, 1, 0, 0])
    action = person.choose(SEEN)
    assert (action.open_gripper, action.close_gripper) == (True, False)


def test_a_stick_that_is_no_longer_heard_stops_moving_the_arm():
    person, pad, clock = make()
    pad.hear([1.0, 0.0, 0.0, 0.0, 0.0], [0] * 4)
    clock.seconds = 0.6
    assert person._read() is None


def test_what_is_steered_keeps_the_bounds_of_every_action():
    person, _, _ = make()
    person.steer((5.0, -5.0, 0.0, 9.0))
    action = person.choose(SEEN)
    assert action.displacement_m == pytest.approx((0.08, -0.08, 0.0))
    assert action.rotation_rad == pytest.approx(np.pi / 4)


def test_an_axis_turned_round_moves_the_other_way():
    person, _, _ = make()
    Gamepad(person, StickLayout(forward=-2), SETTINGS).hear([0.0, 1.0, 0.0, 0.0, 0.0], [])
    assert person.choose(SEEN).displacement_m[0] == pytest.approx(-0.05)


def test_who_waits_for_a_person_heeds_a_stop():
    person = Teleoperation(SETTINGS, why_to_stop=lambda: "the door opened")
    with pytest.raises(EpisodeStopped, match="the door opened"):
        person.choose(SEEN)


def test_an_episode_that_nobody_steers_is_broken_off():
    times = iter([0.0, 0.0, 10.5, 10.5, 10.5, 10.5])
    person = Teleoperation(SETTINGS, now=lambda: next(times))
    with pytest.raises(EpisodeStopped, match="nobody has steered for 10 s"):
        person.choose(SEEN)
