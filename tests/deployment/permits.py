"""Permits that are in order, as a scheduler would issue them now."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from opc_ros.deployment.audit_log import AuditHead
from opc_ros.deployment.dsse import from_text
from opc_ros.deployment.permit import Permit, Rung
from tests.deployment.clock import SECOND


def make_permit(candidate_id: str, robot: str, rung: Rung, *, length_s: float = 600.0, **terms: Any) -> Permit:
    """For one episode, but for the terms."""
    now_ns = time.time_ns()
    usual: dict[str, Any] = {"permit_id": secrets.token_hex(4), "lease_id": secrets.token_hex(4), "episodes": 1}
    usual |= {"issued_ns": now_ns, "expires_ns": now_ns + round(length_s * SECOND), "audit_head": AuditHead()}
    return Permit(candidate_id=candidate_id, robot=robot, rung=rung, **(usual | terms))


def session_in(signed: str) -> str:
    """Which start of a runner it is, of those it signs and tells everybody."""
    return str(json.loads(from_text(signed).payload)["content"]["session"])
