"""The latest state published by the lab's nodes, for the pages to show."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

EVENTS_KEPT = 500
STOPS_KEPT = 16  # most nodes of one robot that may each obey a stop
SILENT_S = 3.0  # a robot silent for longer is shown as offline
WATCHED_S = 5.0  # cameras stay subscribed for this long after the last image request


@dataclass(frozen=True, slots=True)
class RecorderState:
    """How a robot's recorder is doing."""

    state: str = "unknown"
    reason: str = ""
    frame_rate_hz: float = 0.0
    disk_free_bytes: int = 0
    saved: int = 0
    quarantined: int = 0
    unlabelled: int = 0


@dataclass(frozen=True, slots=True)
class RobotView:
    """What one robot reports about itself."""

    robot: str
    state: str = "no policy runner"
    reason: str = ""
    candidate_id: str = ""
    permit_id: str = ""
    episode_id: str = ""
    rung: str = ""
    step: int = 0
    episodes_left: int = 0
    guard: str = "unknown"
    guard_reason: str = ""
    recorder: RecorderState = field(default_factory=RecorderState)
    stops: tuple[str, ...] = ()  # ids of the stops that its nodes obey; a release must name them
    heard_s: float = 0.0  # monotonic
    frame: int = 0  # number of camera images so far; 0: none yet

    def as_seen(self, now_s: float) -> dict[str, Any]:
        """As JSON; a robot that has been silent for a while is offline, whatever its last state."""
        shown = asdict(self)
        shown["silent_s"] = round(now_s - self.heard_s, 1)
        if now_s - self.heard_s > SILENT_S:
            shown["state"] = "offline"
        return shown


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the event list."""

    number: int
    at_ns: int
    robot: str
    kind: str
    text: str


class LiveView:
    """Written by the node's threads and read by the server's; every method is thread-safe."""

    def __init__(self, now_s: Callable[[], float], *, event_counter: int = 0) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._robots: dict[str, RobotView] = {}
        self._images: dict[str, bytes] = {}
        self._obeyed: dict[str, dict[str, int]] = {}  # robot -> listener -> stop
        self._wanted_s: dict[str, float] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._numbered = event_counter
        self._documents: dict[str, tuple[float, Any]] = {}
        self._version = 0
        self._wake: list[Callable[[], None]] = []

    def update_robot(self, robot: str, **changes: Any) -> None:
        """Update some fields of a robot's view; a robot heard for the first time is added."""
        with self._lock:
            view = self._robots.get(robot, RobotView(robot))
            self._robots[robot] = replace(view, heard_s=self._now_s(), **changes)
            self._changed()

    def set_stop(self, robot: str, listener: str, stop_ns: int) -> None:
        """Note which stop one of the robot's nodes obeys; 0: none."""
        with self._lock:
            obeyed = self._obeyed.setdefault(robot, {})
            obeyed.pop(listener, None)
            if stop_ns:
                obeyed[listener] = stop_ns
                while len(obeyed) > STOPS_KEPT:
                    obeyed.pop(next(iter(obeyed)))
            view = self._robots.get(robot, RobotView(robot, heard_s=self._now_s()))
            self._robots[robot] = replace(view, stops=tuple(map(str, sorted(set(obeyed.values())))))
            self._changed()

    def add_event(self, at_ns: int, robot: str, kind: str, text: str) -> None:
        with self._lock:
            self._numbered += 1
            self._events.append(Event(self._numbered, at_ns, robot, kind, text))
            self._changed()

    def set_image(self, robot: str, jpeg: bytes) -> None:
        with self._lock:
            view = self._robots.get(robot, RobotView(robot))
            self._robots[robot] = replace(view, frame=view.frame + 1)
            self._images[robot] = jpeg
            self._changed()

    def set_document(self, name: str, document: Any) -> None:
        """Keep the newest of each kind: the deployment's status, the ranking on the topic."""
        with self._lock:
            before = self._documents.get(name)
            self._documents[name] = (self._now_s(), document)
            if before is None or before[1] != document:
                self._changed()

    def document(self, name: str, *, max_age_s: float = float("inf")) -> Any | None:
        with self._lock:
            found = self._documents.get(name)
        if found is None or self._now_s() - found[0] > max_age_s:
            return None
        return found[1]

    def image(self, robot: str) -> bytes | None:
        """The newest image; requesting it keeps the camera subscribed."""
        with self._lock:
            self._wanted_s[robot] = self._now_s()
            return self._images.get(robot)

    def watched(self) -> frozenset[str]:
        """Robots whose images were requested recently."""
        now_s = self._now_s()
        with self._lock:
            return frozenset(robot for robot, at_s in self._wanted_s.items() if now_s - at_s < WATCHED_S)

    def robots(self) -> list[dict[str, Any]]:
        now_s = self._now_s()
        with self._lock:
            views = sorted(self._robots.values(), key=lambda view: view.robot)
        return [view.as_seen(now_s) for view in views]

    def robot_names(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._robots))

    def events(self, after: int = 0) -> list[Mapping[str, Any]]:
        with self._lock:
            return [asdict(event) for event in self._events if event.number > after]

    @property
    def version(self) -> int:
        """Increases with every change."""
        return self._version

    def on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after every change, on the thread that made it; returns a function that unsubscribes."""
        with self._lock:
            self._wake.append(wake)

        def forget() -> None:
            with self._lock:
                self._wake.remove(wake)

        return forget

    def _changed(self) -> None:
        self._version += 1
        for wake in self._wake:
            wake()
