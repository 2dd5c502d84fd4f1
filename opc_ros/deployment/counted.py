"""When the newest ranking and history that ever counted here were signed, so that older ones cannot come back."""

from __future__ import annotations

from typing import Literal

from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.documents import parse_json

Counted = Literal["ranking_counts", "history_counts"]  # the kinds of event that record it


def newest_counted_ns(queue: QueueReader, kind: Counted) -> int:
    """The newest such time; after a clock that ran ahead was corrected, no later than the correction."""
    newest_ns = 0
    for row in queue.rows(
        "SELECT kind, at_ns, body FROM events WHERE kind IN (?, 'clock_accepted') ORDER BY change", kind
    ):
        if row["kind"] == "clock_accepted":
            newest_ns = min(newest_ns, int(row["at_ns"]))
        else:
            newest_ns = max(newest_ns, int(parse_json(row["body"], where="queue: event")["signed_ns"]))
    return newest_ns
