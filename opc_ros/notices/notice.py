"""Which news needs a person's attention; each piece is sent once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

QUIET_S = 60.0  # the same kind of event of one robot is reported at most this often
MOST_IN_QUIET = 30  # events reported in that time, over all robots: anybody can make up robot names
LONGEST = 1000  # characters kept of an event's text
TOLD_EVENTS = {"watchdog": "the arm was held", "stop": "the arm was stopped", "fault": "the arm is at fault"}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell."""

    kind: str  # request_waiting, champion, request_ended, halted, arm_held
    title: str
    text: str
    robot: str = ""
    request_id: str = ""


class NoticeWatch:
    """Compares the lab's state with the previous one; the first state is not news, except for what is waiting."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._requests: dict[str, str] | None = None  # id -> state
        self._champion: str | None = None
        self._halted: dict[str, str] = {}
        self._told_s: dict[tuple[str, str], float] = {}

    def see_deployment(self, document: Mapping[str, Any]) -> Iterator[Notice]:
        """Take the scheduler's status, as printed by `opc deploy status --json`."""
        is_first = self._requests is None
        before = self._requests or {}
        requests = {entry["id"]: entry for entry in document["requests"]}
        self._requests = {request_id: entry["state"] for request_id, entry in requests.items()}
        for request_id, entry in requests.items():
            if entry["state"] != before.get(request_id) and (not is_first or entry["state"] == "waiting"):
                yield from _about_request(entry)
        yield from self._about_champion(document)
        yield from self._about_halts(document, is_first=is_first)

    def see_event(self, robot: str, kind: str, detail: str) -> Iterator[Notice]:
        """Take a safety event; a burst of them is sent once."""
        if kind not in TOLD_EVENTS:
            return
        now_s, robot = self._now_s(), robot[:100]
        self._told_s = {which: told_s for which, told_s in self._told_s.items() if now_s - told_s < QUIET_S}
        if (robot, kind) not in self._told_s and len(self._told_s) < MOST_IN_QUIET:
            self._told_s[robot, kind] = now_s
            yield Notice("arm_held", f"{robot}: {TOLD_EVENTS[kind]}", detail[:LONGEST], robot=robot)

    def _about_champion(self, document: Mapping[str, Any]) -> Iterator[Notice]:
        champion, before = document["champion"], self._champion
        self._champion = champion
        if before is not None and champion and champion != before:
            yield Notice("champion", f"{document['champion_name']} is the new champion", "the race for the arms ended")

    def _about_halts(self, document: Mapping[str, Any], *, is_first: bool) -> Iterator[Notice]:
        halted = {entry["robot"]: entry["halted_by"] for entry in document["robots"] if entry["halted_by"]}
        for robot, by in halted.items():
            if robot not in self._halted and not is_first:
                text = "nobody gets a lease of it until `opc deploy resume`"
                yield Notice("halted", f"{robot}: halted by {by}", text, robot=robot)
        self._halted = halted


def _about_request(entry: Mapping[str, Any]) -> Iterator[Notice]:
    name, request_id = entry["name"], entry["id"]
    if entry["state"] == "waiting":
        text = f"requested by {entry['requested_by']}; decide with `opc deploy approve {request_id}` or in the console"
        yield Notice("request_waiting", f"{name} waits for a person", text, request_id=request_id)
    elif entry["state"] in ("done", "aborted", "rejected"):
        real = entry["real"]
        text = f"{real['successes']} of {real['trials']} on real arms" + (
            f"; {entry['reason']}" * bool(entry["reason"])
        )
        yield Notice("request_ended", f"{name}: {entry['state']}", text, request_id=request_id)
