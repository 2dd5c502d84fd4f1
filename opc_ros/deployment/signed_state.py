"""What follows from the recorded events, in order: results, champions, rungs, halts, revoked permits."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from opc_ros.deployment.dsse import from_text
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import OpcError

ENDS = ("aborted", "rejected")


@dataclass(slots=True)
class RequestState:
    """The part of a request that only signatures or results can change."""

    candidate_id: str
    rung: str = ""  # empty: recorded by an older version that did not say
    end: str = ""  # "aborted" or "rejected"; neither can be undone
    is_exploration: bool = False
    identity: str = ""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The terms of a signed permit."""

    request_id: str
    candidate_id: str
    robot: str
    rung: str
    episodes: int
    permit_id: str
    expires_ns: int
    permit_sha256: str


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """One result, as the robot signed it."""

    lease_id: str
    request_id: str
    candidate_id: str
    robot: str
    rung: str
    success: int | None
    safety_events: int
    recording: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class KeptStatement:
    """A person's statement that was acted on."""

    kind: str
    person: str
    request_id: str
    envelope: str
    at_ns: int


@dataclass(slots=True)
class SignedState:
    """State built up event by event, independent of the rows that should say the same."""

    requests: dict[str, RequestState] = field(default_factory=dict)
    leases: dict[str, LeaseTerms] = field(default_factory=dict)
    results: dict[str, EpisodeOutcome] = field(default_factory=dict)
    champions: list[tuple[str, bool]] = field(default_factory=list)  # candidate id, whether withdrawn
    halted: dict[str, str] = field(default_factory=dict)  # robot -> who halted it
    halted_all: str = ""
    revoked: dict[str, str] = field(default_factory=dict)  # permit id -> lease id
    statements: dict[str, KeptStatement] = field(default_factory=dict)  # by nonce

    def follow(self, kind: str, body: dict[str, Any], at_ns: int) -> None:
        """Follow one event; a kind that decides nothing is ignored."""
        if "statement" in body:
            self._keep_statement(body, at_ns)
        act = getattr(self, f"_on_{kind}", None)
        if act is not None:
            act(body, at_ns)

    def _on_request(self, body: dict[str, Any], at_ns: int) -> None:
        identity = canonical_json(body["identity"], is_ascii=True) if "identity" in body else ""
        self.requests[body["request_id"]] = RequestState(
            body["candidate_id"], body.get("rung", ""), "", bool(body.get("is_exploration")), identity
        )

    def _on_climbed(self, body: dict[str, Any], at_ns: int) -> None:
        self.requests[body["request_id"]].rung = body["to"]

    def _on_aborted(self, body: dict[str, Any], at_ns: int) -> None:
        self.requests[body["request_id"]].end = "aborted"

    def _on_reject(self, body: dict[str, Any], at_ns: int) -> None:
        self.requests[body["request_id"]].end = "rejected"

    def _on_permit(self, body: dict[str, Any], at_ns: int) -> None:
        names = ("request_id", "candidate_id", "robot", "rung", "episodes", "permit_id", "expires_ns", "sha256")
        self.leases[body["lease_id"]] = LeaseTerms(*(body[name] for name in names))

    def _on_episode(self, body: dict[str, Any], at_ns: int) -> None:
        lease_id = body["episode_id"].rpartition("-")[0]
        lease, success = self.leases[lease_id], body["success"]
        self.results[body["episode_id"]] = EpisodeOutcome(
            lease_id=lease_id,
            request_id=lease.request_id,
            candidate_id=lease.candidate_id,
            robot=lease.robot,
            rung=lease.rung,
            success=None if success is None else int(success),
            safety_events=body["safety_events"],
            recording=body.get("recording", "not asked"),
            at_ns=at_ns,
        )

    def _on_recording(self, body: dict[str, Any], at_ns: int) -> None:
        result = self.results[body["episode_id"]]
        self.results[body["episode_id"]] = dataclasses.replace(result, recording=body["recording"])

    def _on_champion(self, body: dict[str, Any], at_ns: int) -> None:
        self.champions.append((body["candidate_id"], False))

    def _on_champion_withdrawn(self, body: dict[str, Any], at_ns: int) -> None:
        self.champions = [(name, out or name == body["candidate_id"]) for name, out in self.champions]

    def _on_halt(self, body: dict[str, Any], at_ns: int) -> None:
        by = f"{body['person']}: {body['reason']}".strip(": ")
        self.halted |= dict.fromkeys(_robots(body), by)
        if body["robot"] == "all":
            self.halted_all = by

    def _on_robot_halted(self, body: dict[str, Any], at_ns: int) -> None:
        self.halted.setdefault(body["robot"], body["reason"])

    def _on_resume(self, body: dict[str, Any], at_ns: int) -> None:
        for robot in _robots(body) or list(self.halted):
            self.halted.pop(robot, None)
        if body["robot"] == "all":
            self.halted_all = ""

    def _on_permit_revoked(self, body: dict[str, Any], at_ns: int) -> None:
        self.revoked[body["permit_id"]] = body["lease_id"]

    def _keep_statement(self, body: dict[str, Any], at_ns: int) -> None:
        envelope = canonical_json(body["statement"], is_ascii=True)
        try:
            said = parse_json(from_text(envelope).payload, where="statement")
        except OpcError:
            return
        request_id = "" if said["kind"] in ("resume", "accept_clock", "relabel") else str(body.get("request_id", ""))
        self.statements[said["nonce"]] = KeptStatement(said["kind"], said["person"], request_id, envelope, at_ns)


def _robots(body: dict[str, Any]) -> list[str]:
    """The robots that a halt or resume is about; older versions named one robot, or "all" for every known one."""
    return list(body.get("robots", () if body["robot"] == "all" else (body["robot"],)))
