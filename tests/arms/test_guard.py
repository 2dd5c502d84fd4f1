"""When an arm's guard holds the arm."""

from __future__ import annotations

import pytest

from opc_ros.arms.guard import Guard, GuardState
from opc_ros.arms.safety import StopSwitch


class Bench:
    """A guard with a clock that only moves when told to."""

    def __init__(self, *, holds_unheard: bool = True) -> None:
        self.seconds = 100.0
        self.switch = StopSwitch("arm1")
        self.guard = Guard(
            self.switch,
            heartbeat_timeout_s=0.3,
            measurement_timeout_s=0.5,
            holds_unheard=holds_unheard,
            now=lambda: self.seconds,
        )

    def pass_time(self, seconds: float, *, is_moving: bool, beats: bool) -> list[str]:
        """Joint states, and heartbeats if any, arrive every 0.1 s; returns what was reported."""
        lines = []
        for _ in range(round(seconds / 0.1)):
            self.seconds += 0.1
            if beats:
                self.guard.hear(is_goodbye=False)
            self.guard.see(is_moving=is_moving)
            lines.append(self.guard.look())
        return [line for line in lines if line]


def test_it_says_what_it_waits_for_and_when_it_watches():
    bench = Bench()
    assert bench.guard.explain() == (GuardState.BLIND, "joint states: none yet")
    bench.guard.see(is_moving=False)
    assert bench.guard.explain() == (GuardState.WAITING, "heartbeats: none yet")
    bench.guard.hear(is_goodbye=False)
    assert bench.guard.explain() == (GuardState.WATCHING, "")
    bench.guard.hear(is_goodbye=True)
    assert bench.guard.state is GuardState.WAITING


def test_heartbeats_that_cease_hold_the_arm_until_they_come_back():
    bench = Bench()
    assert bench.pass_time(1.0, is_moving=True, beats=True) == []
    assert bench.pass_time(1.0, is_moving=True, beats=False) == ["heartbeats: none for 0.40 s, allowed 0.30; holding"]
    assert (bench.guard.must_hold, bench.guard.state) == (True, GuardState.HOLDING)
    assert bench.pass_time(0.1, is_moving=False, beats=True) == []
    assert (bench.guard.must_hold, bench.guard.state) == (False, GuardState.WATCHING)


@pytest.mark.parametrize(("holds", "word"), [(True, "holding"), (False, "not held")])
def test_an_arm_that_moves_though_nobody_is_heard_is_reported_once_and_held_if_asked(holds: bool, word: str):
    bench = Bench(holds_unheard=holds)
    # The motion is first seen at 0.1 s and has lasted for more than 0.3 s at 0.5 s.
    assert bench.pass_time(0.3, is_moving=True, beats=False) == []
    lines = bench.pass_time(0.7, is_moving=True, beats=False)
    assert lines == [f"the arm moves and no heartbeats are heard; {word}"]
    assert bench.guard.must_hold is holds
    assert bench.pass_time(0.1, is_moving=False, beats=False) == []
    assert not bench.guard.must_hold
    assert len(bench.pass_time(1.0, is_moving=True, beats=False)) == 1


def test_a_goodbye_lets_the_arm_come_to_rest_but_not_go_on():
    bench = Bench()
    bench.pass_time(1.0, is_moving=True, beats=True)
    bench.guard.hear(is_goodbye=True)
    assert bench.pass_time(0.2, is_moving=True, beats=False) == []
    assert bench.pass_time(1.0, is_moving=False, beats=False) == []
    assert bench.pass_time(1.0, is_moving=True, beats=False) != []


def test_a_stop_holds_the_arm_even_while_its_commander_is_heard():
    bench = Bench()
    bench.pass_time(0.2, is_moving=True, beats=True)
    bench.switch.press("gate opened", 1)
    assert (bench.guard.must_hold, bench.guard.explain()) == (True, (GuardState.STOPPED, "gate opened"))


def test_joint_states_that_cease_leave_it_blind():
    bench = Bench()
    bench.pass_time(0.2, is_moving=False, beats=True)
    bench.seconds += 0.6
    bench.guard.hear(is_goodbye=False)
    assert bench.guard.explain() == (GuardState.BLIND, "joint states: none for 0.60 s, allowed 0.50")
