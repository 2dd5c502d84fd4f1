"""Lost leases: how each loss counts, and what the robot's journal adds later."""

from __future__ import annotations

from opc_ros.deployment.outcomes import follow_up
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_rows import Lease
from opc_ros.deployment.revoking import Tell
from opc_ros.deployment.rules import SchedulerRules


def note_loss(queue: Queue, tell: Tell, lease: Lease, rules: SchedulerRules) -> None:
    """Within a change: count a loss as the candidate's broken episode, and halt a robot after too many in a row."""
    newest = "SELECT state FROM leases WHERE robot = ? ORDER BY seq DESC LIMIT ?"
    last = queue.rows(newest, lease.robot, rules.lease.losses)
    if len(last) == rules.lease.losses and all(row[0] in ("lost", "settled") for row in last):
        reason = f"scheduler: {len(last)} leases lost in a row"
        queue.execute("UPDATE robots SET halted_by = ? WHERE name = ? AND halted_by = ''", reason, lease.robot)
        tell("robot_halted", {"robot": lease.robot, "reason": reason})
    follow_up(queue, tell, queue.request(lease.request_id), rules)


def settle_lease(queue: Queue, lease: Lease, message: str, now_ns: int) -> None:
    """Close a lost lease after the robot came back and reported what it had run; the rest was already leased again."""
    ran = queue.rows("SELECT count(*) FROM results WHERE lease_id = ?", lease.id)
    with queue.change("settle", now_ns) as tell:
        queue.set_lease(lease.id, "settled")
        body = {"lease_id": lease.id, "robot": lease.robot, "candidate_id": lease.candidate_id}
        tell("lease_settled", body | {"episodes": lease.episodes, "ran": ran[0][0], "message": message})
