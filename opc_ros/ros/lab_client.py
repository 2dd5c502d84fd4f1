"""A client of the lab's nodes: registers, scores and requests robot time over ROS, as anybody on the network could."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opc_interfaces.action import ScoreCandidates
from opc_interfaces.srv import GetDeployment, RegisterCandidate, SubmitStatement
from rclpy.action import ActionClient

from opc_ros.bringup.lab_names import in_lab, read_namespace
from opc_ros.deployment.decision import Decision, Verdict
from opc_ros.deployment.signing import SignsAs
from opc_ros.deployment.statement import RequestBody, sign_statement
from opc_ros.errors import OpcError
from opc_ros.progress import Report, ignore_progress
from opc_ros.ros.brief_node import BriefNode
from opc_ros.ros.permit_messages import decision_from_msg

SCORING_S = 1800.0  # how long a live scorer may show no progress: it yields to everything else on its machine

Watch = Callable[[], None]  # called while waiting; raises when there is no point in waiting


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The outcome of a request for robot time."""

    request_id: str
    state: str  # queued, waiting or refused
    decision: Decision

    @property
    def verdict(self) -> Verdict:
        return self.decision.verdict


class LabClient:
    """Waits for each answer while `watch` finds nothing wrong, and up to `patience_s` after the last sign of life."""

    def __init__(self, watch: Watch, signs: SignsAs, *, patience_s: float = 300.0) -> None:
        self._watch = watch
        self._signs = signs
        self._patience_s = patience_s
        self._heard_s = time.monotonic()
        self._brief = BriefNode("lab_client", namespace=read_namespace())
        self._node = self._brief.node
        self._score = ActionClient(self._node, ScoreCandidates, in_lab("/score_candidates"))
        self._register = self._node.create_client(RegisterCandidate, in_lab("/register_candidate"))
        self._statement = self._node.create_client(SubmitStatement, in_lab("/deployment/statement"))
        self._status = self._node.create_client(GetDeployment, in_lab("/deployment/status"))

    def __enter__(self) -> LabClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._score.destroy()
        self._brief.close()

    def absent(self) -> list[str]:
        """Which of the nodes it needs are still missing."""
        is_there = {
            "scorer": self._score.server_is_ready() and self._register.service_is_ready(),
            "scheduler": self._statement.service_is_ready() and self._status.service_is_ready(),
        }
        self._brief.pulse()
        return [name for name, there in is_there.items() if not there]

    def register(self, folder: Path) -> str:
        """Have the scorer keep a copy of a candidate; returns its id."""
        answer = self._call(self._register, RegisterCandidate.Request(path=str(folder)), "scorer")
        return str(answer.candidate_id)

    def score(self, snapshot: str, report: Report = ignore_progress) -> Path:
        """Have every registered candidate scored on a snapshot; returns the path of the report's page."""

        def tell(message: Any) -> None:
            feedback = message.feedback
            self._heard_s = time.monotonic()
            report(int(feedback.done), int(feedback.total), feedback.phase)

        goal = ScoreCandidates.Goal(snapshot=snapshot)
        handle = self._wait(self._score.send_goal_async(goal, feedback_callback=tell), "scorer")
        if not handle.accepted:
            raise OpcError("scorer: refused the request; its log says why")
        result = self._wait(handle.get_result_async(), "scorer", SCORING_S).result
        if not result.success:
            raise OpcError(f"scorer: {result.message}")
        return Path(result.report_path)

    def request(self, candidate_id: str) -> GateAnswer:
        """Ask the gate to let a candidate onto robots, in a signed request."""
        signs = self._signs
        envelope = sign_statement("request", signs.person, RequestBody(candidate_id), signs.signer, time.time_ns())
        answer = self._call(self._statement, SubmitStatement.Request(statement=envelope), "scheduler")
        return GateAnswer(answer.request_id, answer.state, decision_from_msg(answer.decision))

    def status(self) -> dict[str, Any]:
        """What `opc deploy status --json` prints."""
        answer = self._call(self._status, GetDeployment.Request(), "scheduler")
        document: dict[str, Any] = json.loads(answer.status_json)
        return document

    def _call(self, client: Any, request: Any, node: str) -> Any:
        answer = self._wait(client.call_async(request), node)
        if not answer.success:
            raise OpcError(f"{node}: {answer.message}")
        return answer

    def _wait(self, future: Any, node: str, least_s: float = 0.0) -> Any:
        patience_s = max(self._patience_s, least_s)
        self._heard_s = time.monotonic()
        while not future.done():
            self._watch()
            if time.monotonic() > self._heard_s + patience_s:
                raise OpcError(f"{node}: did not answer in {patience_s:g} s")
            self._brief.pulse()
        return future.result()
