"""What holds an arm that should not move: a stop switch and a watchdog."""

from __future__ import annotations

from collections.abc import Callable

from opc_ros.errors import ArmStopped

ECHO_NS = 1_000_000_000  # nobody can sign a release this soon after a stop


class StopSwitch:
    """A stop that stays until it is lifted.

    Its timestamp identifies a stop. Stopping always counts, whatever the clocks say; lifting counts only if it names
    the newest stop.
    """

    def __init__(self, arm: str) -> None:
        self._arm = arm
        self._reason: str | None = None
        self._pressed_ns = 0

    @property
    def arm(self) -> str:
        return self._arm

    @property
    def reason(self) -> str | None:
        """Why the arm is stopped; None if it is not."""
        return self._reason

    @property
    def pressed_ns(self) -> int:
        """Timestamp of the newest stop."""
        return self._pressed_ns

    def press(self, reason: str, stamp_ns: int) -> bool:
        """Stop; return whether the state changed.

        Nodes repeat a stop for late subscribers, so a stop within a second of the newest is the same one: otherwise an
        echo would replace the stop that an operator is about to release.
        """
        is_news = self._reason is None
        if is_news or stamp_ns - self._pressed_ns > ECHO_NS:
            self._pressed_ns = max(stamp_ns, self._pressed_ns)
        if is_news:
            self._reason = reason or "no reason given"
        return is_news

    def lift(self, stamp_ns: int) -> bool:
        """Allow motion again if this is the newest stop; return whether the state changed."""
        is_news = self._reason is not None and stamp_ns == self._pressed_ns
        if is_news:
            self._reason = None
        return is_news

    def refuse_if_pressed(self) -> None:
        if self._reason is not None:
            raise ArmStopped(f"arm {self._arm}: stopped ({self._reason}); release it first")


class Watchdog:
    """Notices when something that should keep arriving has ceased; it starts watching with the first arrival."""

    def __init__(self, what: str, timeout_s: float, now: Callable[[], float]) -> None:
        if not timeout_s > 0.0:
            raise ValueError(f"watchdog over {what}: timeout is {timeout_s} s, expected above 0")
        self._what = what
        self._timeout_s = timeout_s
        self._now = now
        self._fed_s: float | None = None
        self._has_barked = False

    @property
    def is_awake(self) -> bool:
        return self._fed_s is not None

    @property
    def is_expired(self) -> bool:
        return self._fed_s is not None and self._now() - self._fed_s > self._timeout_s

    def feed(self) -> bool:
        """A heartbeat arrived; return whether it ends a reported silence."""
        has_barked, self._has_barked = self._has_barked, False
        self._fed_s = self._now()
        return has_barked

    def rest(self) -> None:
        """Stop watching until the next heartbeat: the watched node has signed off."""
        self._fed_s = None
        self._has_barked = False

    def bark(self) -> str:
        """One line when a silence has become too long, once per silence; otherwise empty."""
        if self._has_barked or not self.is_expired:
            return ""
        self._has_barked = True
        return self.describe()

    def describe(self) -> str:
        """How long nothing has arrived."""
        if self._fed_s is None:
            return f"{self._what}: none yet"
        return f"{self._what}: none for {self._now() - self._fed_s:.2f} s, allowed {self._timeout_s:.2f}"
