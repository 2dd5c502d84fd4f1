"""How faults at an arm are chosen and their outcomes judged, and that a stepped clock affects one process only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy")

from tests.faults.arm import Outcome, _judge, choose_kinds, judge_all
from tests.faults.arm_kinds import KINDS
from tests.faults.mischief import Clocks


def test_a_stepped_clock_moves_the_wall_clock_alone_and_of_one_process(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path)
    if not clocks.can_step:
        pytest.skip("no C compiler")
    program = "import sys, time\nfor line in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
    environment = {**os.environ, **clocks.environment("child")}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for offset_s in (0, -3600, 3600, 0):
            clocks.step("child", offset_s)
            child.stdin.write("now\n")
            child.stdin.flush()
            wall_s, steady_s = map(float, child.stdout.readline().split())
            assert wall_s - time.time() == pytest.approx(offset_s, abs=30.0)
            assert steady_s - time.monotonic() == pytest.approx(0.0, abs=30.0)
        child.stdin.close()


def outcome(**changes: object) -> Outcome:
    values: dict[str, object] = {
        "run": 1,
        "kind": "stop",
        "rest_ms": 80.0,
        "event_ms": 5.0,
        "event": "stop: stopped by the topic stop",
        "travel_mm": 1.0,
        "commands": 2,
        "beyond_limits": 0,
        "answer": "stopped",
    }
    return Outcome(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"event_ms": None}, "no safety event"),
        ({"is_at_rest": False}, "the arm still moved when it was looked at last"),
        ({"travel_mm": 5.1}, "the tool moved by 5.1 mm after the hold"),
        ({"returned_mm": 6.0}, "the tool moved by 6.0 mm after everything was repaired"),
        ({"beyond_limits": 1}, "1 commands beyond the limits"),
    ],
)
def test_a_broken_promise_is_named(changes: dict[str, object], line: str) -> None:
    assert judge_all([outcome(**changes)]) == [f"run 1, stop: {line}"]


def test_the_time_to_rest_is_judged_over_all() -> None:
    kept = [outcome(run=run) for run in range(99)]
    assert judge_all(kept) == []
    # Of 101 the 99th percentile is the 100th, so two slow ones break it.
    slow = [outcome(run=run, rest_ms=900.0) for run in (99, 100)]
    assert judge_all([*kept, *slow]) == ["from fault to rest: 99th percentile 900 ms, goal 500 ms"]


def test_every_kind_comes_as_often_as_the_others() -> None:
    chosen = choose_kinds(4 * len(KINDS), seed=3)
    assert {chosen.count(name) for name in KINDS} == {4}
    assert chosen == choose_kinds(4 * len(KINDS), seed=3)
    assert chosen != choose_kinds(4 * len(KINDS), seed=4)


def heard(events_at: Sequence[float]) -> Any:
    """A rig that measured an arm moving until 10.02 s and at rest from 10.03 s, and then received events."""
    from opc_interfaces.msg import SafetyEvent

    event = SafetyEvent(kind=SafetyEvent.WATCHDOG, detail="returned NaN")
    speeds = {10.00: 0.5, 10.01: 0.5, 10.02: 0.5, 10.03: 0.0, 11.0: 0.0}
    return SimpleNamespace(
        joints=[(at_s, np.zeros(7), speed) for at_s, speed in speeds.items()],
        commands=[],
        events=[(at_s, event) for at_s in events_at],
        answer="ended",
        kinematics=SimpleNamespace(locate_tool=lambda _: SimpleNamespace(x_m=0.0, y_m=0.0, z_m=0.0)),
    )


@pytest.mark.parametrize(
    ("events_at", "event_ms", "rest_ms"),
    [
        ((10.05,), 20.0, 0.0),  # 20 ms after the arm was measured at rest, where the choice began
        ((10.01,), 0.0, 10.0),  # reported before that: then the motion since counts
        ((), None, 0.0),
        ((9.9,), None, 0.0),  # from before the fault
    ],
)
def test_a_choice_is_judged_from_rest_or_from_its_event(
    events_at: tuple[float, ...], event_ms: float | None, rest_ms: float
) -> None:
    found = _judge(heard(events_at), 1, "nan", KINDS["nan"], fault_s=10.0)
    assert (found.event_ms, found.rest_ms) == (event_ms, rest_ms)
    assert ("no safety event" in str(found.broken())) == (event_ms is None)
