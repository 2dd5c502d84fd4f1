"""Import of a lab's own ROS recording (bag folder, .bag, .db3 or .mcap) as grasp episodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.errors import EpisodeError, SetupError, StoreError
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.bag_mapping import BagMapping, LabelMapping, read_number
from opc_ros.store.messages import BYTES_PER_PIXEL
from opc_ros.store.store import Store

_LABELLER = "imported recording"
IMAGE_TYPES = ("sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/Image")


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one recording."""

    recording: Path
    episode_ids: tuple[str, ...]
    skipped: tuple[str, ...]  # one line for each episode that could not be taken


def import_bag(
    store: Store | None, recording: Path, mapping: BagMapping, *, report: Report = ignore_progress
) -> Imported:
    """Append every episode of a recording; those that are not whole are skipped, with the reason.

    Without a store nothing is written: the result says what would be.
    """
    ids: list[str] = []
    skipped: list[str] = []
    for number, stretch in enumerate(_stretches(recording, mapping, report)):
        episode_id = _episode_id(recording, number if mapping.episodes else None)
        try:
            episode = _to_episode(episode_id, stretch, mapping)
            if store is not None:
                store.append(episode, health=(f"imported from {recording.name}",))
            ids.append(episode_id)
        except (StoreError, EpisodeError) as error:
            skipped.append(f"{episode_id}: {error}")
    if not ids and not skipped:
        skipped.append(f"{recording}: no episode begins in it")
    return Imported(recording, tuple(ids), tuple(skipped))


@dataclass(slots=True)
class _Stretch:
    """What was recorded of one episode."""

    steps: list[tuple[Frame, ToolState, GraspAction | None]] = field(default_factory=list)
    is_success: bool | None = None
    is_open: bool = True
    problem: str = ""


class _Collector:
    """Follows a recording message by message; everything is matched by when the recorder received it."""

    def __init__(self, mapping: BagMapping) -> None:
        self._mapping = mapping
        self._tool: tuple[int, tuple[float, float, float, float]] | None = None
        self._aperture_m = mapping.open_aperture_m
        self._seen: tuple[Frame, ToolState | None] | None = None
        self.stretch: _Stretch | None = None if mapping.episodes else _Stretch()

    def take(self, topic: str, stamp_ns: int, message: Any) -> _Stretch | None:
        """Returns the stretch before, once the next one begins."""
        mapping, finished = self._mapping, None
        if mapping.episodes is not None and topic == mapping.episodes.topic:
            finished = self._follow_event(read_number(message, mapping.episodes.field))
        if topic == mapping.tool.topic:
            self._tool = (stamp_ns, mapping.tool.read(message))
        if mapping.aperture_m is not None and topic == mapping.aperture_m.topic:
            self._aperture_m = read_number(message, mapping.aperture_m.field)
        if isinstance(mapping.label, LabelMapping) and topic == mapping.label.topic and self.stretch is not None:
            self.stretch.is_success = mapping.label.read(message)
        if self.stretch is not None and self.stretch.is_open and not self.stretch.problem:
            if topic == mapping.camera:
                self._take_frame(self.stretch, stamp_ns, message)
            if mapping.action is not None and topic == mapping.action.topic:
                self._take_action(self.stretch, stamp_ns, mapping.action.read(message))
        return finished

    def _follow_event(self, value: float) -> _Stretch | None:
        events = self._mapping.episodes
        finished = None
        if events is not None and value == events.begin:
            finished, self.stretch, self._seen = self.stretch, _Stretch(), None
        elif events is not None and value == events.end and self.stretch is not None:
            self.stretch.is_open = False
        return finished

    def _take_frame(self, stretch: _Stretch, stamp_ns: int, message: Any) -> None:
        if self._mapping.action is not None:
            self._seen = (to_frame(message, stamp_ns), self._tool_at(stamp_ns))
            return
        last_ns = stretch.steps[-1][0].stamp_ns if stretch.steps else None
        if last_ns is not None and stamp_ns - last_ns < self._mapping.step_s * 1e9:
            return
        tool = self._tool_at(stamp_ns)
        if tool is not None:
            stretch.steps.append((to_frame(message, stamp_ns), tool, None))
        elif stretch.steps:
            stretch.problem = f"frame at {stamp_ns} ns has no tool measurement within {self._mapping.newest_age_s} s"

    def _take_action(self, stretch: _Stretch, stamp_ns: int, action: GraspAction) -> None:
        seen, self._seen = self._seen, None
        if seen is None:
            stretch.problem = f"action at {stamp_ns} ns has no new frame before it"
        elif seen[1] is None:
            stretch.problem = f"action at {stamp_ns} ns has no tool measurement within {self._mapping.newest_age_s} s"
        else:
            stretch.steps.append((seen[0], seen[1], action))

    def _tool_at(self, stamp_ns: int) -> ToolState | None:
        if self._tool is None or stamp_ns - self._tool[0] > self._mapping.newest_age_s * 1e9:
            return None
        return ToolState(*self._tool[1], aperture_m=self._aperture_m)


def to_frame(message: Any, stamp_ns: int) -> Frame:
    """A CompressedImage's bytes as they are; an Image's rows without their padding."""
    data = np.asarray(message.data, dtype=np.uint8)
    if hasattr(message, "format"):
        raw = data.tobytes()
        encoding = "png" if raw.startswith(b"\x89PNG") else "jpeg"
        return Frame(stamp_ns=stamp_ns, encoding=encoding, data=raw)
    channels = BYTES_PER_PIXEL.get(message.encoding)
    if channels is None:
        raise StoreError(
            f"image at {stamp_ns} ns: encoding {message.encoding!r}, expected {', '.join(BYTES_PER_PIXEL)}"
        )
    if len(data) != message.height * message.step or message.step < message.width * channels:
        raise StoreError(f"image at {stamp_ns} ns: {len(data)} bytes for {message.height} rows of {message.step}")
    rows = data.reshape(message.height, message.step)[:, : message.width * channels]
    return Frame(stamp_ns, message.encoding, rows.tobytes(), message.width, message.height)


def _stretches(recording: Path, mapping: BagMapping, report: Report) -> Iterator[_Stretch]:
    collector = _Collector(mapping)
    for topic, stamp_ns, message in _messages(recording, mapping, report):
        finished = collector.take(topic, stamp_ns, message)
        if finished is not None:
            yield finished
    if collector.stretch is not None:
        yield collector.stretch


def _messages(recording: Path, mapping: BagMapping, report: Report) -> Iterator[tuple[str, int, Any]]:
    """Every message of the mapped topics in order of receipt."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise SetupError("rosbags is not installed, which imports need: pip install rosbags") from None
    if not recording.exists():
        raise StoreError(f"{recording}: no such recording")
    try:
        with AnyReader([recording], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as reader:
            known = {link.topic for link in reader.connections}
            missing = [topic for topic in mapping.topics if topic not in known]
            if missing:
                has = ", ".join(sorted(known))
                raise StoreError(f"{recording}: has no topic {missing[0]}, expected by the mapping; it has {has}")
            links = [link for link in reader.connections if link.topic in mapping.topics]
            _require_images(recording, mapping, {link.topic: link.msgtype for link in links})
            total = sum(link.msgcount for link in links)
            for number, (link, stamp_ns, data) in enumerate(reader.messages(links)):
                report(number, total)
                yield link.topic, stamp_ns, reader.deserialize(data, link.msgtype)
            report(total, total)
    except (StoreError, EpisodeError):
        raise
    except Exception as error:  # a reader of foreign files raises whatever their content makes it trip over
        raise StoreError(f"{recording}: cannot be read: {' '.join(str(error).split())}") from error


def _require_images(recording: Path, mapping: BagMapping, types: Mapping[str, str]) -> None:
    found = types[mapping.camera]
    if found not in IMAGE_TYPES:
        raise StoreError(f"{recording}: camera {mapping.camera} is {found}, expected {' or '.join(IMAGE_TYPES)}")


def _to_episode(episode_id: str, stretch: _Stretch, mapping: BagMapping) -> Episode:
    if stretch.problem:
        raise StoreError(stretch.problem)
    if mapping.episodes is not None and stretch.is_open:
        raise StoreError("begins but does not end")
    if not stretch.steps:
        raise StoreError("no frame with a tool measurement and an action")
    tools = [tool for _, tool, _ in stretch.steps]
    derived = [mapping.derive_action(before, after) for before, after in pairwise(tools)]
    derived.append(GraspAction(terminate=True))
    return Episode(
        id=episode_id,
        robot=mapping.robot,
        behaviour_policy=mapping.behaviour_policy,
        steps=tuple(
            GraspStep(frame=frame, tool=tool, action=action or moved)
            for (frame, tool, action), moved in zip(stretch.steps, derived, strict=True)
        ),
        label=_label(mapping, stretch),
        object_set=mapping.object_set,
    )


def _label(mapping: BagMapping, stretch: _Stretch) -> Label:
    is_success = mapping.label == "success" if isinstance(mapping.label, str) else stretch.is_success
    if is_success is None:
        return Label()
    return Label(is_success=is_success, source=LabelSource.IMPORT, labeller=_LABELLER)


def _episode_id(recording: Path, number: int | None) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", recording.stem).strip(".-")[:100] or "recording"
    return stem if number is None else f"{stem}-{number:04d}"
