"""Builds steps for arms that publish actions and tool states on separate topics."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from opc_ros.grasp import GraspAction, ToolState
from opc_ros.recording.health import HealthFinding
from opc_ros.recording.running_episode import StepReport


@dataclass(frozen=True, slots=True)
class BareAction:
    """An action, and the timestamp of the frame it was chosen on."""

    episode_id: str
    index: int
    stamp_ns: int
    action: GraspAction


class StepJoiner:
    """Gives each action the tool state measured closest to its frame.

    Which one is closest is only known after a later one has arrived; an action waits for that, up to a timeout.
    """

    def __init__(self, *, max_apart_s: float, timeout_s: float, capacity: int = 4096) -> None:
        self._max_apart_s = max_apart_s
        self._timeout_ns = int(timeout_s * 1e9)
        self._stamps_ns: deque[int] = deque(maxlen=capacity)
        self._tools: deque[ToolState] = deque(maxlen=capacity)
        self._waiting: deque[tuple[BareAction, int]] = deque(maxlen=capacity)

    def add_tool(self, stamp_ns: int, tool: ToolState) -> None:
        if self._stamps_ns and stamp_ns <= self._stamps_ns[-1]:
            # After a clock was set back, everything from before is useless.
            self._stamps_ns.clear()
            self._tools.clear()
        self._stamps_ns.append(stamp_ns)
        self._tools.append(tool)

    def add_action(self, bare: BareAction, mono_ns: int) -> None:
        self._waiting.append((bare, mono_ns))

    def join(self, mono_ns: int) -> Iterator[StepReport | HealthFinding]:
        """Steps that are complete now, and a finding for each action that has waited in vain."""
        while self._waiting:
            bare, came_ns = self._waiting[0]
            has_later = bool(self._stamps_ns) and self._stamps_ns[-1] >= bare.stamp_ns
            if not has_later and mono_ns - came_ns < self._timeout_ns:
                return
            self._waiting.popleft()
            yield self._make_step(bare)

    def _make_step(self, bare: BareAction) -> StepReport | HealthFinding:
        after = bisect.bisect_left(self._stamps_ns, bare.stamp_ns)
        nearby = [i for i in (after - 1, after) if 0 <= i < len(self._stamps_ns)]
        if not nearby:
            return HealthFinding("steps", f"step {bare.index}: no tool state came")
        nearest = min(nearby, key=lambda i: abs(self._stamps_ns[i] - bare.stamp_ns))
        apart_s = abs(self._stamps_ns[nearest] - bare.stamp_ns) / 1e9
        if apart_s > self._max_apart_s:
            return HealthFinding(
                "steps",
                f"step {bare.index}: the nearest tool state is {apart_s:.3f} s apart from its frame,"
                f" allowed {self._max_apart_s:.3f}",
            )
        return StepReport(bare.episode_id, bare.index, bare.stamp_ns, self._tools[nearest], bare.action)
