"""Decides when the guard beside an arm's driver must hold the arm, and which state it reports."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from opc_ros.arms.safety import StopSwitch, Watchdog


class GuardState(StrEnum):
    """What the guard is doing."""

    WAITING = "waiting"  # no commander is known
    WATCHING = "watching"  # a commander is active; if it falls silent, the arm is held
    HOLDING = "holding"
    STOPPED = "stopped"
    BLIND = "blind"  # no plausible joint states, so the arm could not be held where it is


class Guard:
    """Watches heartbeats and joint states of one arm.

    It holds the arm while a stop is in force, after heartbeats cease, while measurements are implausible, and when the
    arm moves although no heartbeats are heard: something that this guard cannot hear is commanding the arm, and the
    guard would not notice its death.
    """

    def __init__(
        self,
        switch: StopSwitch,
        *,
        heartbeat_timeout_s: float,
        measurement_timeout_s: float,
        holds_unheard: bool,
        now: Callable[[], float],
    ) -> None:
        self._switch = switch
        self._timeout_s = heartbeat_timeout_s
        self._heartbeats = Watchdog("heartbeats", heartbeat_timeout_s, now)
        self._measurements = Watchdog("joint states", measurement_timeout_s, now)
        self._holds_unheard = holds_unheard
        self._now = now
        self._moving_since_s: float | None = None  # while no heartbeats are heard
        self._has_told = False
        self._trouble = ""
        self._has_told_trouble = False

    @property
    def state(self) -> GuardState:
        return self.explain()[0]

    @property
    def must_hold(self) -> bool:
        is_unheard = self._moves_unheard() and self._holds_unheard
        return self._switch.reason is not None or self._heartbeats.is_expired or is_unheard or bool(self._trouble)

    def hear(self, *, is_goodbye: bool) -> None:
        """A heartbeat arrived."""
        if is_goodbye:
            self._heartbeats.rest()
        else:
            self._heartbeats.feed()
            self._forget_motion()

    def doubt(self, trouble: str) -> None:
        """Measurements are implausible for this reason; empty: plausible again."""
        if trouble != self._trouble:
            self._has_told_trouble = False
        self._trouble = trouble

    def see(self, *, is_moving: bool) -> None:
        """Plausible joint states arrived."""
        self._measurements.feed()
        if self._heartbeats.is_awake or not is_moving:
            self._forget_motion()
        elif self._moving_since_s is None:
            self._moving_since_s = self._now()

    def look(self) -> str:
        """The line to report when something is wrong, once per occurrence; otherwise empty."""
        if (self._trouble or self._measurements.is_expired) and not self._has_told_trouble:
            self._has_told_trouble = True
            return f"{self._trouble or self._measurements.describe()}; the arm cannot be held at measured positions"
        if not self._trouble and not self._measurements.is_expired:
            self._has_told_trouble = False
        if silence := self._heartbeats.bark():
            return f"{silence}; holding"
        if self._moves_unheard() and not self._has_told:
            self._has_told = True
            return f"the arm moves and no heartbeats are heard; {'holding' if self._holds_unheard else 'not held'}"
        return ""

    def explain(self) -> tuple[GuardState, str]:
        """The state and the reason for it; no reason is given while it watches."""
        if self._switch.reason is not None:
            return GuardState.STOPPED, self._switch.reason
        if self._trouble:
            return GuardState.BLIND, self._trouble
        if not self._measurements.is_awake or self._measurements.is_expired:
            return GuardState.BLIND, self._measurements.describe()
        if self._heartbeats.is_expired:
            return GuardState.HOLDING, self._heartbeats.describe()
        if self._moves_unheard():
            state = GuardState.HOLDING if self._holds_unheard else GuardState.WAITING
            return state, "the arm moves and no heartbeats are heard"
        if self._heartbeats.is_awake:
            return GuardState.WATCHING, ""
        return GuardState.WAITING, self._heartbeats.describe()

    def _moves_unheard(self) -> bool:
        return self._moving_since_s is not None and self._now() - self._moving_since_s > self._timeout_s

    def _forget_motion(self) -> None:
        self._moving_since_s, self._has_told = None, False
