"""Sends an arm the holds of one commander, beside a guard that may have held it already: a hold is never a motion."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from opc_ros.arms.hold import Hold
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory
from opc_ros.ros.guard_word import GuardWord
from opc_ros.ros.joint_messages import JointReading

LATE_S = 0.2  # a commander whose heartbeats came so much apart may have been held for dead
WORD_S = 0.15  # three times as often a guard says how it is
SEEN_S = 0.03  # an arm measured so recently is held by that, whoever has held it before

Newest = Callable[[], tuple[float, JointReading] | None]  # joints as measured last, and when (monotonic)


class HoldSender:
    """What was told and measured last says where an arm has got to only as long as nobody else has told it to stay.

    A guard that hears the same stop is often quicker. So a hold waits for what comes first: a new measurement, or the
    guard's next word, which comes within a twentieth of a second. A guard that has fallen silent is not waited for.
    What was told is forgotten when the guard does not watch, and when this process has slept: it would have taken the
    silence for death.
    """

    def __init__(
        self, settings: ArmSettings, guard: GuardWord, newest: Newest, send: Callable[[Trajectory], None]
    ) -> None:
        self._hold = Hold(JointLimits(settings.load_model()), settings, time.monotonic)
        self._guard, self._newest, self._send = guard, newest, send
        self._lock = threading.RLock()
        self._awake_s = time.monotonic()
        self.owes_hold = False  # until the next measurement, or the guard's next word

    def note(self, trajectory: Trajectory) -> None:
        """The arm was told this just now."""
        with self._lock:
            self._hold.note(trajectory)
            self.owes_hold = False

    def stay_awake(self) -> None:
        """To be called with every heartbeat."""
        with self._lock:
            self._forget_if_late()
            self._awake_s = time.monotonic()

    def hold(self) -> None:
        """Tell the arm to stay where it is; where nobody can tell, or where it rests already, nothing is sent."""
        with self._lock:
            self._forget_if_late()
            newest = self._newest()
            if newest is None:
                return
            measured_s, reading = newest
            is_seen = time.monotonic() - measured_s <= SEEN_S
            is_alone = self._guard.has_just_allowed or (self._guard.is_silent and self._hold.is_fresh(measured_s))
            self.owes_hold = not (is_seen or is_alone)
            if self.owes_hold:
                return
            hold = self._hold.plan(reading.positions_rad, reading.velocities_rad_s, measured_s)
            if hold is not None:
                self._send(hold)
                self._hold.note(hold)

    def settle(self, changed: threading.Condition) -> None:
        """Hold before a goodbye, or the guard would hear that before it says how the arm is by now."""
        with changed:
            self.hold()
            changed.wait_for(lambda: not self.owes_hold, WORD_S)

    def hear_joints(self) -> None:
        """Something was measured."""
        with self._lock:
            if self.owes_hold:
                self.hold()

    def hear_guard(self) -> None:
        """The guard has said something."""
        with self._lock:
            if not self._guard.allows_motion:
                self._hold.forget()
                self.owes_hold = False
            elif self.owes_hold:
                self.hold()

    def _forget_if_late(self) -> None:
        if time.monotonic() - self._awake_s > LATE_S:
            self._hold.forget()
