"""Revoke leases: mark them as being revoked, and put their permits on the revocation list at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.keys import Signer
from opc_ros.deployment.permit import Revocations, sign_revocations
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Lease

Tell = Callable[[str, dict[str, Any]], None]


def revoke_leases(queue: Queue, tell: Tell, reason: str, *, request_id: str = "", robot: str = "") -> None:
    """Within a change: revoke every open lease, or those of one request or robot."""
    for lease in queue.open_leases():
        if lease.state == "revoking" or (request_id not in ("", lease.request_id)) or (robot not in ("", lease.robot)):
            continue
        queue.set_lease(lease.id, "revoking")
        revoke_permit(queue, tell, lease, reason)


def revoke_permit(queue: Queue, tell: Tell, lease: Lease, reason: str) -> None:
    """Within a change: put a lease's permit on the list."""
    queue.execute("INSERT OR IGNORE INTO revoked VALUES (?, ?)", lease.permit_id, lease.expires_ns)
    queue.set_fact("revocation_serial", queue.fact("revocation_serial") + 1)
    tell("permit_revoked", {"permit_id": lease.permit_id, "lease_id": lease.id, "reason": reason})


def list_revoked(queue: Queue, now_ns: int) -> Revocations:
    """The list that robots must have received, without permits that expired long ago."""
    day_ns = 86_400 * 1_000_000_000
    rows = queue.rows("SELECT permit_id FROM revoked WHERE until_ns > ? ORDER BY permit_id", now_ns - day_ns)
    return Revocations(queue.fact("revocation_serial"), tuple(row[0] for row in rows))


def revocation_list(queue: Queue, signer: Signer, now_ns: int) -> Signed:
    """The revocation list, signed."""
    return sign_revocations(list_revoked(queue, now_ns), signer)
