"""When the newest ranking and the newest history were signed that ever counted here: older ones do not count again."""

from __future__ import annotations

from typing import Literal

from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.documents import parse_json

Counted = Literal["ranking_counts", "history_counts"]  # events that say so


def newest_counted_ns(queue: QueueReader, kind: Counted) -> int:
    """Of clocks that ran ahead, up to their correction."""
    newest_ns = 0
    for row in queue.rows(
        "SELECT kind, at_ns, body FROM events WHERE kind IN (?, 'clock_accepted') ORDER BY change", kind
    ):
        if row["kind"] == "clock_accepted":
            newest_ns = min(newest_ns, int(row["at_ns"]))
        else:
            newest_ns = max(newest_ns, int(parse_json(row["body"], where="queue: event")["signed_ns"]))
    return newest_ns
