"""Which results count: those whose recording is committed, unless the rules let others count too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from opc_ros.deployment.queue import Queue
from opc_ros.deployment.rules import RecordingRules


class Recording(StrEnum):
    """The state of an episode's recording."""

    COMMITTED = "committed"  # the robot signed that its recorder committed it, or the store has it
    PENDING = "pending"  # not confirmed yet: the result waits and does not count
    MISSING = "missing"  # not confirmed in time: the episode counts as broken
    NOT_ASKED = "not asked"  # the rules accept unrecorded results, or there is no outcome to count


@dataclass(frozen=True, slots=True)
class PendingResult:
    """A result whose recording has not been confirmed yet."""

    episode_id: str
    request_id: str
    robot: str


# Never waits: returns what the last look into the store found; episodes not looked up yet are left out.
Look = Callable[[Sequence[PendingResult]], Mapping[str, bool]]


def look_nowhere(pending: Sequence[PendingResult]) -> Mapping[str, bool]:
    """For when there is no store to look into: only what robots sign is known."""
    return {each.episode_id: False for each in pending}


def classify(rules: RecordingRules, is_success: bool | None, digest: str) -> Recording:
    """Classify a result when it arrives; `digest` is that of the committed file, as signed by the robot."""
    if digest:
        return Recording.COMMITTED
    if is_success is None or not rules.required:
        return Recording.NOT_ASKED
    return Recording.PENDING


class PendingRecordings:
    """Waits for recordings on a monotonic clock; one that does not arrive in time counts as missing from then on."""

    def __init__(self, queue: Queue, rules: RecordingRules, look: Look, steady_s: Callable[[], float]) -> None:
        self._queue = queue
        self._rules = rules
        self._look = look
        self._steady_s = steady_s
        self._since_s: dict[str, float] = {}  # episode -> when we began to wait for it; starts over after a restart

    def settle(self) -> list[tuple[PendingResult, Recording]]:
        """Results whose recording has been confirmed or is now missing."""
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
    """Record in the audit log when unrecorded episodes start or stop counting."""
    if bool(queue.fact("counts_unrecorded")) is rules.required:
        with queue.change("recording rule", now_ns) as tell:
            queue.set_fact("counts_unrecorded", int(not rules.required))
            tell("recording_rule", {"counts_unrecorded": not rules.required})
