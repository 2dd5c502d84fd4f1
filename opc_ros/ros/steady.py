"""Timers that no step of the machine's clock, and no simulated time, can hold up or hurry."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def create_steady_timer(
    node: Node, period_s: float, act: Callable[[], None], callback_group: CallbackGroup | None = None
) -> Timer:
    """As `node.create_timer`, by a clock that only ever goes on: a guard must not be blind while time is set back."""
    return node.create_timer(period_s, act, callback_group, clock=Clock(clock_type=ClockType.STEADY_TIME))
