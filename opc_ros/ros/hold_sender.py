"""Sends one commander's holds to an arm whose guard may have held it already; a hold must never cause motion."""

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

LATE_S = 0.2  # after a gap this long between its heartbeats, the guard may have given up and held the arm
WORD_S = 0.15  # three times a guard's status period
SEEN_S = 0.03  # a measurement this recent shows where the arm is, whoever has held it

Newest = Callable[[], tuple[float, JointReading] | None]  # the newest joint measurement and its arrival (monotonic)


class HoldSender:
    """Sends a hold only when the arm's position is certain, since the guard may have held the arm in the meantime.

    The last trajectory and measurement give the arm's position only while nobody else has commanded it, and a guard
    that hears the same stop is often quicker. So a hold waits for a new measurement or the guard's next status, which
    takes at most a twentieth of a second. A silent guard is not waited for. The last trajectory is forgotten when the
    guard is not watching, and when this process has slept for so long that the guard may have taken it for dead.
    """

    def __init__(
        self, settings: ArmSettings, guard: GuardWord, newest: Newest, send: Callable[[Trajectory], None]
    ) -> None:
        self._hold = Hold(JointLimits(settings.load_model()), settings, time.monotonic)
        self._guard, self._newest, self._send = guard, newest, send
        self._lock = threading.RLock()
        self._awake_s = time.monotonic()
        self.owes_hold = False  # until the next measurement or guard status

    def note(self, trajectory: Trajectory) -> None:
        """Note that this trajectory was just sent to the arm."""
        with self._lock:
            self._hold.note(trajectory)
            self.owes_hold = False

    def stay_awake(self) -> None:
        """Call this with every heartbeat."""
        with self._lock:
            self._forget_if_late()
            self._awake_s = time.monotonic()

    def hold(self) -> None:
        """Hold the arm where it is; sends nothing if its position is uncertain or it is at rest already."""
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
        """Hold before signing off, after waiting for a measurement or the guard's status if the hold needs one."""
        with changed:
            self.hold()
            changed.wait_for(lambda: not self.owes_hold, WORD_S)

    def hear_joints(self) -> None:
        """Call this when joints were measured."""
        with self._lock:
            if self.owes_hold:
                self.hold()

    def hear_guard(self) -> None:
        """Call this when the guard has published its status."""
        with self._lock:
            if not self._guard.allows_motion:
                self._hold.forget()
                self.owes_hold = False
            elif self.owes_hold:
                self.hold()

    def _forget_if_late(self) -> None:
        if time.monotonic() - self._awake_s > LATE_S:
            self._hold.forget()
