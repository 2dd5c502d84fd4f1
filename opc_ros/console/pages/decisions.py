"""Decisions: requests with the gate's findings, signed approvals, and the audit log."""

from __future__ import annotations

import base64
import time

from starlette.requests import Request
from starlette.routing import Route

from opc_ros.config import parse_config
from opc_ros.console.app import Console, Page, action_route, data_route, text_field
from opc_ros.deployment.statement import BODIES, TYPE, prepare_statement
from opc_ros.documents import parse_json
from opc_ros.errors import OpcError

PAGE = Page("/decisions", "Decisions", "decisions.html")
LONGEST_ENVELOPE = 64_000


def routes(console: Console) -> list[Route]:
    def decisions(request: Request) -> object:
        return {"deployment": console.live.document("deployment", max_age_s=10.0)}

    def audit(request: Request) -> object:
        query = request.query_params
        return {"entries": console.lab.audit(query.get("text", "")[:200], query.get("kind", "")[:40])}

    def explain(request: Request) -> object:
        found = console.commands.explain(request.path_params["request"])
        return {"findings": (found or {}).get("findings")}

    def halt(body: dict[str, object]) -> object:
        robot, reason = text_field(body, "robot"), text_field(body, "reason")
        if not reason.strip():
            raise OpcError("halt: give a reason")
        answer = console.commands.halt(robot, text_field(body, "person"), reason)
        return {"done": answer.is_done, "message": answer.message}

    def submit(body: dict[str, object]) -> object:
        answer = console.commands.submit(text_field(body, "envelope", longest=LONGEST_ENVELOPE))
        return {"done": answer.is_done, "message": answer.message}

    def prepare(body: dict[str, object]) -> object:
        kind = next((each for each in BODIES if each == text_field(body, "kind")), None)
        if kind is None:
            raise OpcError(f"kind {text_field(body, 'kind')!r}, expected one of {', '.join(BODIES)}")
        said = parse_json(text_field(body, "body", longest=LONGEST_ENVELOPE), where=kind, error=OpcError)
        content = parse_config(said, BODIES[kind], where=kind, error=OpcError)
        status = console.live.document("deployment") or {}
        deployment = str(status.get("deployment_id", ""))
        payload = prepare_statement(kind, text_field(body, "person"), content, time.time_ns(), deployment)
        return {"type": TYPE, "payload": base64.b64encode(payload.encode()).decode()}

    return [
        action_route("/api/statements/prepare", prepare),
        data_route("/api/decisions", decisions),
        data_route("/api/decisions/{request}", explain),
        action_route("/api/halt", halt),
        data_route("/api/audit", audit),
        action_route("/api/statements", submit),
    ]
