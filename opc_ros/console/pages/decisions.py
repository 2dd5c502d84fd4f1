"""Decisions: requests with the gate's findings, signed approvals, and the audit log."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route

from opc_ros.console.app import Console, Page, action_route, data_route, text_field

PAGE = Page("/decisions", "Decisions", "decisions.html")
LONGEST_ENVELOPE = 64_000


def routes(console: Console) -> list[Route]:
    def decisions(request: Request) -> object:
        return {"deployment": console.live.document("deployment", max_age_s=10.0)}

    def audit(request: Request) -> object:
        query = request.query_params
        return {"entries": console.lab.audit(query.get("text", "")[:200], query.get("kind", "")[:40])}

    def submit(body: dict[str, object]) -> object:
        answer = console.commands.submit(text_field(body, "envelope", longest=LONGEST_ENVELOPE))
        return {"done": answer.is_done, "message": answer.message}

    return [
        data_route("/api/decisions", decisions),
        data_route("/api/audit", audit),
        action_route("/api/statements", submit),
    ]
