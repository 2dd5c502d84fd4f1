"""Timers that changes of the system clock, and simulated time, do not affect."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def create_steady_timer(
    node: Node, period_s: float, act: Callable[[], None], callback_group: CallbackGroup | None = None
) -> Timer:
    """Like `node.create_timer`, on a monotonic clock: a guard must keep working while the system clock is set back."""
    return node.create_timer(period_s, act, callback_group, clock=Clock(clock_type=ClockType.STEADY_TIME))
