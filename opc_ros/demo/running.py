"""Permitted candidates run on the arms, as the scheduler leases them; progress is reported from the audit log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from opc_ros.demo.lab import DemoLab
from opc_ros.demo.screen import Screen
from opc_ros.deployment.audit_check import read_audit_log

LOOK_S = 0.5
SAVING_S = 30.0  # how long recorders may take to save their last episodes


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of the requests."""

    status: dict[str, Any]  # as printed by `opc deploy status --json`
    is_cut_off: bool  # time ran out before the scheduler was done

    @property
    def tried(self) -> list[dict[str, Any]]:
        """Requests whose candidate ran on an arm."""
        return [request for request in self.status["requests"] if request["real"]["trials"]]


def run_permitted(lab: DemoLab, screen: Screen) -> Ran:
    """Wait until there is a champion, or no request is queued and no lease is running."""
    if not any(request["state"] == "queued" for request in lab.client.status()["requests"]):
        screen.line("  nobody has passed the gate: no permit is issued, and no candidate moves an arm")
    teller = _Teller(lab, screen)
    deadline = time.monotonic() + lab.plan.longest_run_s
    while True:
        status = lab.client.status()
        teller.tell(status)
        if status["champion"] and not _is_racing(status):
            left = sum(request["state"] == "queued" for request in status["requests"])
            if left:
                screen.line(f"  the race is decided; {left} requests for episodes to explore stay in the queue")
            _await_recorders(lab, screen)
            return Ran(status, is_cut_off=False)
        is_busy = any(robot["lease"] for robot in status["robots"])
        if not is_busy and not any(request["state"] == "queued" for request in status["requests"]):
            _await_recorders(lab, screen)
            return Ran(status, is_cut_off=False)
        if time.monotonic() > deadline:
            screen.line(
                f"  {lab.plan.longest_run_s:g} s are over: the arms are stopped, and requests stay in the queue"
            )
            return Ran(status, is_cut_off=True)
        lab.watch()
        time.sleep(LOOK_S)


def _is_racing(status: dict[str, Any]) -> bool:
    """Whether any request is at full speed, or admitted and on its way there."""
    leases = [robot["lease"] for robot in status["robots"] if robot["lease"]]
    queued = [request for request in status["requests"] if request["state"] == "queued"]
    return any(lease["rung"] == "full" for lease in leases) or any(not request["is_exploration"] for request in queued)


def _await_recorders(lab: DemoLab, screen: Screen) -> None:
    """Wait for the recorders, since robots report before these are done, and ending the nodes would lose episodes."""
    deadline = time.monotonic() + SAVING_S
    told = [entry.body for entry in read_audit_log(lab.plan.audit_log) if entry.kind == "episode"]
    ran = {body["episode_id"] for body in told if body["success"] is not None}
    while missing := ran - {path.stem for path in lab.plan.store.glob("episodes/**/*.json")}:
        if time.monotonic() > deadline:
            screen.line(f"  {len(missing)} of {len(ran)} episodes that ran were not recorded; logs: {lab.plan.logs}")
            return
        lab.watch()
        screen.waiting(f"{len(missing)} episodes to be saved")
        time.sleep(0.1)


class _Teller:
    """Turns new lines of the audit log into lines for people."""

    def __init__(self, lab: DemoLab, screen: Screen) -> None:
        self._lab = lab
        self._screen = screen
        self._seen = 0
        self._episodes = self._successes = 0
        self._taken_back: set[str] = set()  # leases that the scheduler ended early

    def tell(self, status: dict[str, Any]) -> None:
        names = {request["candidate_id"]: request["name"] for request in status["requests"]}
        for entry in list(read_audit_log(self._lab.plan.audit_log))[self._seen :]:
            self._seen += 1
            name = names.get(entry.body.get("candidate_id", ""), "")
            if entry.kind == "episode":
                self._episodes += 1
                self._successes += entry.body["success"] is True
            elif entry.kind == "permit_revoked":
                self._taken_back.add(entry.body["lease_id"])
            elif line := self._describe(entry.kind, entry.body, name):
                self._screen.line(f"  {line}")
        self._screen.waiting(f"{self._episodes} episodes run, {self._successes} succeeded; {_doing(status, names)}")

    def _describe(self, kind: str, body: dict[str, Any], name: str) -> str:
        if kind == "lease_ended" and body["lease_id"] in self._taken_back:
            done = f"{body['ran']} of {body['episodes']} episodes"
            return f"{body['robot']}: taken back from {name} after {done}" if body["ran"] < body["episodes"] else ""
        return _describe(kind, body, name)


def _describe(kind: str, body: dict[str, Any], name: str) -> str:
    if kind == "permit":
        return (
            f"{body['robot']}: permit {body['permit_id'][:8]} for {body['episodes']} episodes of {name}, {body['rung']}"
        )
    if kind == "climbed":
        return f"{name} climbs from {body['from']} to {body['to']}: {body['successes']} of {body['trials']} succeeded"
    if kind == "aborted":
        return f"{name} is aborted: {body['reason']}"
    if kind == "champion":
        low, high = body["interval"]
        return f"{name} is the champion: {body['estimate']:.0%} expected ({low:.0%} to {high:.0%}); {body['why']}"
    if kind == "no_champion":
        return f"no new champion: {body['why']}"
    if kind == "admitted":
        return f"{name} has convinced the gate at reduced speed, and goes on to full"
    if kind == "lease_ended" and body["message"]:
        done = f"{body['ran']} of {body['episodes']} episodes"
        return f"{body['robot']}: broke off after {done} of {name}: {body['message']}"
    if kind == "gate_closed":
        return f"{name} waits for a person: {body['reasons'][0]}"
    if kind == "finished" and not body.get("reason", "race over").startswith("race over"):
        return f"{name}: {body['reason']}"
    return ""


def _doing(status: dict[str, Any], names: dict[str, str]) -> str:
    doing = []
    for robot in status["robots"]:
        lease = robot["lease"]
        what = f"{names[lease['candidate_id']]} ({lease['rung']})" if lease else robot["state"]
        doing.append(f"{robot['robot']}: {what}")
    return ", ".join(doing)
