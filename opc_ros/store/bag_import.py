"""Import a lab's own ROS recording (bag folder, .bag, .db3 or .mcap) as grasp episodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.errors import EpisodeError, StoreError
from opc_ros.grasp import GraspStep
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.bag_mapping import BagMapping
from opc_ros.store.bag_reading import IMAGE_TYPES, read_messages, read_types
from opc_ros.store.bag_timeline import PlannedEpisode, Timeline
from opc_ros.store.messages import BYTES_PER_PIXEL
from opc_ros.store.store import Store

_LABELLER = "imported recording"


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of importing one recording."""

    recording: Path
    episode_ids: tuple[str, ...]
    skipped: tuple[str, ...]  # one line for each episode that could not be imported


def import_bag(
    store: Store | None, recording: Path, mapping: BagMapping, *, report: Report = ignore_progress
) -> Imported:
    """Append every episode of a recording; incomplete ones are skipped, with the reason.

    Without a store nothing is written, and the result says what would be.
    """
    planned = _plan(recording, mapping, report)
    names = [_episode_id(recording, number if mapping.episodes else None) for number in range(len(planned))]
    ids: list[str] = []
    skipped = [f"{name}: {plan.problem}" for name, plan in zip(names, planned, strict=True) if plan.problem]
    for number, frames in _fill(recording, mapping, planned):
        try:
            if isinstance(frames, StoreError):
                raise frames
            episode = _to_episode(names[number], planned[number], frames, mapping)
            if store is not None:
                store.append(episode, health=(f"imported from {recording.name}", *planned[number].remarks))
            ids.append(names[number])
        except (StoreError, EpisodeError) as error:
            skipped.append(f"{names[number]}: {error}")
    if not planned:
        skipped.append(f"{recording}: no episode begins in it")
    return Imported(recording, tuple(ids), tuple(sorted(skipped)))


def to_frame(message: Any, stamp_ns: int) -> Frame:
    """A CompressedImage's bytes unchanged, or an Image's rows without their padding."""
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


def _plan(recording: Path, mapping: BagMapping, report: Report) -> list[PlannedEpisode]:
    """The first pass over the recording plans the episodes; images are only counted."""
    types = read_types(recording)
    missing = [topic for topic in mapping.topics if topic not in types]
    if missing:
        has = ", ".join(sorted(types))
        raise StoreError(f"{recording}: has no topic {missing[0]}, expected by the mapping; it has {has}")
    if types[mapping.camera] not in IMAGE_TYPES:
        expected = " or ".join(IMAGE_TYPES)
        raise StoreError(f"{recording}: camera {mapping.camera} is {types[mapping.camera]}, expected {expected}")
    timeline = Timeline(mapping)
    for message in read_messages(recording, mapping.topics, report=report):
        timeline.take(message)
    return timeline.plan()


def _fill(
    recording: Path, mapping: BagMapping, planned: Sequence[PlannedEpisode]
) -> Iterator[tuple[int, tuple[Frame, ...] | StoreError]]:
    """The second pass fetches the frames; an episode is released once its last frame has come."""
    wanted = {
        step.frame_number: (number, place, step.stamp_ns)
        for number, episode in enumerate(planned)
        for place, step in enumerate(episode.steps)
    }
    frames: dict[int, dict[int, Frame]] = {}
    failed: set[int] = set()
    for count, message in enumerate(read_messages(recording, (mapping.camera,)) if wanted else ()):
        if count not in wanted:
            continue
        number, place, stamp_ns = wanted[count]
        if number in failed:
            continue
        found = frames.setdefault(number, {})
        try:
            found[place] = to_frame(message.content, stamp_ns)
        except StoreError as error:
            failed.add(number)
            del frames[number]
            yield number, error
            continue
        if len(found) == len(planned[number].steps):
            yield number, tuple(found[index] for index in range(len(found)))
            del frames[number]


def _to_episode(episode_id: str, planned: PlannedEpisode, frames: Sequence[Frame], mapping: BagMapping) -> Episode:
    return Episode(
        id=episode_id,
        robot=mapping.robot,
        behaviour_policy=mapping.behaviour_policy,
        steps=tuple(
            GraspStep(frame=frame, tool=step.tool, action=step.action)
            for frame, step in zip(frames, planned.steps, strict=True)
        ),
        label=_label(mapping, planned.is_success),
        object_set=mapping.object_set,
    )


def _label(mapping: BagMapping, said: bool | None) -> Label:
    is_success = mapping.label == "success" if isinstance(mapping.label, str) else said
    if is_success is None:
        return Label()
    return Label(is_success=is_success, source=LabelSource.IMPORT, labeller=_LABELLER)


def _episode_id(recording: Path, number: int | None) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", recording.stem).strip(".-")[:100] or "recording"
    return stem if number is None else f"{stem}-{number:04d}"
