"""Steering by a person: a gamepad or a 3D mouse produces the same bounded actions that policies choose."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opc_ros.config import described
from opc_ros.errors import EpisodeStopped
from opc_ros.grasp import ActionBounds, GraspAction, Observation

Velocity = tuple[float, float, float, float]  # x, y, z in m/s in the base frame; rotation about z in rad/s
_REST: Velocity = (0.0, 0.0, 0.0, 0.0)
_PULSE_S = 0.05


@dataclass(frozen=True, slots=True)
class StickLayout:
    """Which axis and button of a gamepad does what; the defaults fit an Xbox pad with `joy_node`.

    Axes are counted from 1, so that a negative number can mean an inverted axis. Buttons are counted from 0.
    """

    forward: int = 2  # left stick up: away from the base
    left: int = 1  # left stick left
    up: int = 5  # right stick up
    turn: int = 4  # right stick left: counter-clockwise
    close_button: int = 0
    open_button: int = 1
    done_button: int = 3
    dead_zone: float = 0.1


@dataclass(frozen=True, slots=True)
class TeleoperationSettings:
    """Speeds at full deflection, and how long nobody may steer."""

    speed_m_s: float = described(0.12, "at full deflection", low=0.005, high=1.0)
    turn_rad_s: float = described(0.8, "at full deflection", low=0.05, high=4.0)
    step_s: float = described(0.4, "of deflection that become one action", low=0.05, high=2.0)
    idle_s: float = described(120.0, "an episode ends after this long without steering", low=1.0)
    stale_s: float = described(0.5, "a deflection not repeated for this long is ignored", low=0.05)


class Teleoperation:
    """A player that waits for a person. Input may come from any thread; the playing thread calls `choose`."""

    def __init__(
        self,
        settings: TeleoperationSettings | None = None,
        bounds: ActionBounds | None = None,
        *,
        why_to_stop: Callable[[], str | None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        operator: str = "",
    ) -> None:
        self._settings = settings or TeleoperationSettings()
        self._bounds = bounds or ActionBounds()
        self._why_to_stop = why_to_stop
        self._now = now
        self._operator = operator
        self._changed = threading.Condition()
        self._velocity, self._heard_s = _REST, 0.0
        self._pressed: set[str] = set()

    @property
    def name(self) -> str:
        return f"teleoperation-{self._operator}" if self._operator else "teleoperation"

    def begin(self, seed: int) -> None:
        """Begin an episode; buttons pressed before it do not count."""
        with self._changed:
            self._velocity, self._pressed = _REST, set()

    def steer(self, velocity: Velocity) -> None:
        """Take a deflection of a stick or a 3D mouse; it must be repeated while it is held."""
        with self._changed:
            self._velocity, self._heard_s = velocity, self._now()
            self._changed.notify_all()

    def press(self, button: str) -> None:
        """Take a press of close, open or done, which counts once."""
        with self._changed:
            self._pressed.add(button)
            self._changed.notify_all()

    def choose(self, observation: Observation) -> GraspAction:
        """Wait for input, and return it as an action."""
        begun_s = self._now()
        with self._changed:
            while (action := self._read()) is None:
                if reason := self._why_to_stop():
                    raise EpisodeStopped(reason)
                if self._now() - begun_s > self._settings.idle_s:
                    raise EpisodeStopped(f"nobody has steered for {self._settings.idle_s:g} s")
                self._changed.wait(_PULSE_S)
        return action

    def _read(self) -> GraspAction | None:
        pressed, self._pressed = self._pressed, set()
        is_fresh = self._now() - self._heard_s <= self._settings.stale_s
        velocity = self._velocity if is_fresh else _REST
        if not pressed and velocity == _REST:
            return None
        dx, dy, dz, turn = (rate * self._settings.step_s for rate in velocity)
        wanted = GraspAction(
            displacement_m=(dx, dy, dz),
            rotation_rad=turn,
            close_gripper="close" in pressed and "open" not in pressed,
            open_gripper="open" in pressed,
            terminate="done" in pressed,
        )
        return self._bounds.clamp(wanted) if self._bounds.violations(wanted) else wanted


class Gamepad:
    """Turns a gamepad's messages into steering and presses; a button counts when it goes down."""

    def __init__(self, person: Teleoperation, layout: StickLayout, settings: TeleoperationSettings) -> None:
        self._person, self._layout, self._settings = person, layout, settings
        self._down: set[str] = set()

    def hear(self, axes: Sequence[float], buttons: Sequence[int]) -> None:
        layout, speed = self._layout, self._settings.speed_m_s
        velocity = (
            self._axis(axes, layout.forward) * speed,
            self._axis(axes, layout.left) * speed,
            self._axis(axes, layout.up) * speed,
            self._axis(axes, layout.turn) * self._settings.turn_rad_s,
        )
        self._person.steer(velocity)
        self.hear_buttons(buttons)

    def hear_buttons(self, buttons: Sequence[int]) -> None:
        """Take buttons only, for a 3D mouse whose motion is published as a twist."""
        places = (
            ("close", self._layout.close_button),
            ("open", self._layout.open_button),
            ("done", self._layout.done_button),
        )
        down = {name for name, place in places if 0 <= place < len(buttons) and buttons[place]}
        for name in down - self._down:
            self._person.press(name)
        self._down = down

    def _axis(self, axes: Sequence[float], number: int) -> float:
        place = abs(number) - 1
        if not 0 <= place < len(axes) or abs(axes[place]) < self._layout.dead_zone:
            return 0.0
        return max(-1.0, min(1.0, float(axes[place]))) * (1.0 if number > 0 else -1.0)
