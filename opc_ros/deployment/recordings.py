"""Which results count: those whose recording is committed, unless the rules let others count too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from opc_ros.deployment.queue import Queue
from opc_ros.deployment.rules import RecordingRules


class Recording(StrEnum):
    """What is known of an episode's recording."""

    COMMITTED = "committed"  # the robot's recorder said so and the robot signed it, or the store has it
    PENDING = "pending"  # nobody has said yet: the result waits and counts for nothing
    MISSING = "missing"  # not there when it had to be: the episode counts as broken
    NOT_ASKED = "not asked"  # the rules let unrecorded ones count, or there is no outcome to count


@dataclass(frozen=True, slots=True)
class PendingResult:
    """A result whose recording nobody has confirmed yet."""

    episode_id: str
    request_id: str
    robot: str


# Never waits: what the last look into the store found of some of the episodes; those not looked for yet are left out.
Look = Callable[[Sequence[PendingResult]], Mapping[str, bool]]


def look_nowhere(pending: Sequence[PendingResult]) -> Mapping[str, bool]:
    """Where there is no store to look into: only what robots sign is known."""
    return {each.episode_id: False for each in pending}


def classify(rules: RecordingRules, is_success: bool | None, digest: str) -> Recording:
    """What a result is worth when it arrives; `digest` is of the committed file, as the robot signed it."""
    if digest:
        return Recording.COMMITTED
    if is_success is None or not rules.required:
        return Recording.NOT_ASKED
    return Recording.PENDING


class PendingRecordings:
    """Waits for the recordings of results, on a steady clock; what does not come in time is missing for good."""

    def __init__(self, queue: Queue, rules: RecordingRules, look: Look, steady_s: Callable[[], float]) -> None:
        self._queue = queue
        self._rules = rules
        self._look = look
        self._steady_s = steady_s
        self._since_s: dict[str, float] = {}  # episode -> since when it is waited for; anew after a restart

    def settle(self) -> list[tuple[PendingResult, Recording]]:
        """Those of which something is known now."""
        rows = self._queue.rows(
            "SELECT episode_id, request_id, robot FROM results WHERE recording = ? ORDER BY at_ns", Recording.PENDING
        )
        if not rows:
            self._since_s.clear()
            return []
        pending = [PendingResult(*row) for row in rows]
        now_s = self._steady_s()
        self._since_s = {each.episode_id: self._since_s.get(each.episode_id, now_s) for each in pending}
        found = self._look(pending)
        settled = []
        for each in pending:
            is_found = found.get(each.episode_id)
            if is_found:
                settled.append((each, Recording.COMMITTED))
            elif is_found is False and now_s - self._since_s[each.episode_id] > self._rules.wait_s:
                settled.append((each, Recording.MISSING))
        return settled


def note_rule(queue: Queue, rules: RecordingRules, now_ns: int) -> None:
    """Tell the audit log when unrecorded episodes begin to count, and when they no longer do."""
    if bool(queue.fact("counts_unrecorded")) is rules.required:
        with queue.change("recording rule", now_ns) as tell:
            queue.set_fact("counts_unrecorded", int(not rules.required))
            tell("recording_rule", {"counts_unrecorded": not rules.required})
