from __future__ import annotations

import pytest

from opc_ros.arms.safety import StopSwitch, Watchdog
from opc_ros.errors import ArmStopped


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_pressed_stop_refuses_until_it_is_lifted():
    switch = StopSwitch("arm1")
    switch.refuse_if_pressed()
    assert switch.press("door opened", stamp_ns=10)
    with pytest.raises(ArmStopped, match=r"arm arm1: stopped \(door opened\); release it first"):
        switch.refuse_if_pressed()
    assert not switch.press("again", stamp_ns=2_000_000_000)
    assert switch.reason == "door opened"
    assert not switch.lift(stamp_ns=10)
    assert switch.lift(stamp_ns=2_000_000_000)
    switch.refuse_if_pressed()


def test_a_stop_within_a_second_of_another_is_its_echo():
    switch = StopSwitch("arm1")
    switch.press("door opened", stamp_ns=10)
    assert not switch.press("stopped by the topic stop", stamp_ns=1_000_000_010)
    assert switch.pressed_ns == 10
    assert switch.lift(stamp_ns=10)


def test_a_release_of_another_stop_than_the_newest_is_ignored():
    switch = StopSwitch("arm1")
    switch.press("door opened", stamp_ns=20)
    assert not switch.lift(stamp_ns=19)
    assert not switch.lift(stamp_ns=21)
    assert switch.reason == "door opened"


def test_a_stop_counts_even_if_its_clock_is_behind():
    switch = StopSwitch("arm1")
    switch.press("door opened", stamp_ns=20)
    assert switch.lift(stamp_ns=20)
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
