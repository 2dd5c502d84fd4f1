"""Which frame, tool state and action of a recording belong together, at whatever rates they were recorded."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from opc_ros.errors import StoreError
from opc_ros.grasp import GraspAction, ToolState
from opc_ros.store.bag_mapping import BagMapping, LabelMapping, derive_action, read_number
from opc_ros.store.bag_reading import BagMessage

Pose = tuple[float, float, float, float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One planned step; its frame is identified by its number among the camera's messages."""

    frame_number: int
    stamp_ns: int
    tool: ToolState
    action: GraspAction


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """The content of a planned episode, or why it cannot be imported."""

    steps: tuple[PlannedStep, ...] = ()
    is_success: bool | None = None
    problem: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class Stretch:
    """Everything that was recorded of one episode, each kind in order of time."""

    is_open: bool = True
    is_success: bool | None = None
    frames: list[tuple[int, int]] = field(default_factory=list)  # (time, number)
    actions: list[tuple[int, GraspAction]] = field(default_factory=list)


class Timeline:
    """Collects the small messages of a recording in one pass; images are only counted."""

    def __init__(self, mapping: BagMapping) -> None:
        self._mapping = mapping
        self._frames = 0
        self._tools: list[tuple[int, Pose]] = []
        self._apertures: list[tuple[int, float]] = []
        self._stretches: list[Stretch] = [] if mapping.episodes else [Stretch()]

    def take(self, message: BagMessage) -> None:
        mapping, topic, content = self._mapping, message.topic, message.content
        at_ns = message.stamp_ns if mapping.clock == "stamp" else message.received_ns
        if mapping.episodes is not None and topic == mapping.episodes.topic:
            self._follow_event(read_number(content, mapping.episodes.field))
        if topic == mapping.tool.topic:
            self._tools.append((at_ns, mapping.tool.read(content)))
        if mapping.aperture_m is not None and topic == mapping.aperture_m.topic:
            self._apertures.append((at_ns, read_number(content, mapping.aperture_m.field)))
        stretch = self._stretches[-1] if self._stretches else None
        if stretch is not None and isinstance(mapping.label, LabelMapping) and topic == mapping.label.topic:
            stretch.is_success = mapping.label.read(content)
        if stretch is not None and stretch.is_open:
            if topic == mapping.camera:
                stretch.frames.append((at_ns, self._frames))
            if mapping.action is not None and topic == mapping.action.topic:
                stretch.actions.append((at_ns, mapping.action.read(content)))
        self._frames += topic == mapping.camera

    def plan(self) -> list[PlannedEpisode]:
        self._tools.sort(key=_time)
        self._apertures.sort(key=_time)
        planned = []
        for stretch in self._stretches:
            try:
                planned.append(self._plan(stretch))
            except StoreError as error:
                planned.append(PlannedEpisode(problem=str(error)))
        return planned

    def _follow_event(self, value: float) -> None:
        events = self._mapping.episodes
        if events is not None and value == events.begin:
            self._stretches.append(Stretch())
        elif events is not None and value == events.end and self._stretches:
            self._stretches[-1].is_open = False

    def _plan(self, stretch: Stretch) -> PlannedEpisode:
        if self._mapping.episodes is not None and stretch.is_open:
            raise StoreError("begins but does not end")
        stretch.frames.sort(key=_time)
        stretch.actions.sort(key=_time)
        remarks: tuple[str, ...] = ()
        if self._mapping.action is None:
            steps = self._plan_by_motion(stretch)
        else:
            steps, remarks = self._plan_by_actions(stretch)
        if not steps:
            raise StoreError("no frame with a tool measurement and an action")
        return PlannedEpisode(tuple(steps), stretch.is_success, remarks=remarks)

    def _plan_by_actions(self, stretch: Stretch) -> tuple[list[PlannedStep], tuple[str, ...]]:
        """Each action was chosen on the newest frame before it; several on the same frame are combined."""
        times = [at_ns for at_ns, _ in stretch.frames]
        chosen: dict[int, list[GraspAction]] = {}
        early = 0
        for at_ns, action in stretch.actions:
            index = bisect.bisect_right(times, at_ns) - 1
            if index < 0:
                early += 1
                continue
            if at_ns - times[index] > self._mapping.frame_age_s * 1e9:
                raise StoreError(f"action at {at_ns} ns has no frame within {self._mapping.frame_age_s} s before it")
            chosen.setdefault(index, []).append(action)
        steps = []
        for index, actions in chosen.items():
            at_ns, number = stretch.frames[index]
            tool = self._tool_at(at_ns)
            if tool is None:
                raise self._without_tool(at_ns)
            steps.append(PlannedStep(number, at_ns, tool, combine_actions(actions)))
        most = max(map(len, chosen.values()), default=1)
        remarks = [f"{early} actions before the first frame left out"] if early else []
        remarks += [f"up to {most} actions between two frames joined into one"] if most > 1 else []
        return steps, tuple(remarks)

    def _plan_by_motion(self, stretch: Stretch) -> list[PlannedStep]:
        """Without recorded actions, an action is the tool's motion up to the next step."""
        taken: list[tuple[int, int, ToolState]] = []
        for at_ns, number in stretch.frames:
            if taken and at_ns - taken[-1][0] < self._mapping.step_s * 1e9:
                continue
            tool = self._tool_at(at_ns)
            if tool is not None:
                taken.append((at_ns, number, tool))
            elif taken:
                raise self._without_tool(at_ns)
        change_m = self._mapping.gripper_change_m
        actions = [derive_action(before[2], after[2], gripper_change_m=change_m) for before, after in pairwise(taken)]
        actions.append(GraspAction(terminate=True))
        return [
            PlannedStep(number, at_ns, tool, action)
            for (at_ns, number, tool), action in zip(taken, actions, strict=bool(taken))
        ]

    def _tool_at(self, at_ns: int) -> ToolState | None:
        """The tool state, from the nearest measurement before or after."""
        pose = _nearest(self._tools, at_ns, self._mapping.newest_age_s)
        if pose is None:
            return None
        aperture = _nearest(self._apertures, at_ns, self._mapping.newest_age_s)
        if aperture is None:  # some grippers publish only when they move
            before = bisect.bisect_right(self._apertures, at_ns, key=_time)
            aperture = self._apertures[before - 1][1] if before else self._mapping.open_aperture_m
        return ToolState(*pose, aperture_m=aperture)

    def _without_tool(self, at_ns: int) -> StoreError:
        return StoreError(f"frame at {at_ns} ns has no tool measurement within {self._mapping.newest_age_s} s")


def combine_actions(actions: Iterable[GraspAction]) -> GraspAction:
    """Combine several actions on the same frame: displacements add up, and the last gripper command counts."""
    first, *others = actions
    if not others:
        return first
    every = (first, *others)
    told = [action for action in every if action.open_gripper or action.close_gripper]
    x, y, z = (sum(action.displacement_m[axis] for action in every) for axis in range(3))
    return GraspAction(
        displacement_m=(x, y, z),
        rotation_rad=math.remainder(sum(action.rotation_rad for action in every), math.tau),
        open_gripper=bool(told) and told[-1].open_gripper,
        close_gripper=bool(told) and told[-1].close_gripper,
        terminate=any(action.terminate for action in every),
    )


def _nearest(known: list[tuple[int, T]], at_ns: int, within_s: float) -> T | None:
    index = bisect.bisect_left(known, at_ns, key=_time)
    around = known[max(index - 1, 0) : index + 1]
    best = min(around, key=lambda item: abs(item[0] - at_ns), default=None)
    return best[1] if best is not None and abs(best[0] - at_ns) <= within_s * 1e9 else None


def _time(item: tuple[int, object]) -> int:
    return item[0]
