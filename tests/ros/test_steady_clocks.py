"""Nothing that guards, beats, ticks or times out may follow a clock that somebody can set."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_AGES = ("opc_ros/durable.py",)  # compares with the file system's timestamps
FILES = sorted(path for top in ("opc_ros", "sim_bridge") for path in (ROOT / top).rglob("*.py"))


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def test_every_timer_is_made_by_the_one_function_that_gives_it_a_steady_clock() -> None:
    made_in = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        for call in calls(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("create_timer", "create_rate")
    }
    assert made_in == {"opc_ros/ros/steady.py"}


def test_no_deadline_is_a_wall_clock_time() -> None:
    """`time.time()` is for timestamps of files and events; code that waits or measures a span uses `time.monotonic`."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in FILES
        if path.relative_to(ROOT).as_posix() not in FILE_AGES
        for call in calls(path)
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and (call.func.value.id, call.func.attr) == ("time", "time")
    ]
    assert found == []


def test_a_steady_timer_asks_for_the_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rclpy")
    from rclpy.clock import ClockType

    from opc_ros.ros.steady import create_steady_timer

    asked: list[object] = []

    class FakeNode:
        def create_timer(self, period_s: float, act: object, group: object, *, clock: object) -> None:
            asked.append(clock.clock_type)  # type: ignore[attr-defined]

    create_steady_timer(FakeNode(), 1.0, lambda: None)  # type: ignore[arg-type]
    assert asked == [ClockType.STEADY_TIME]
