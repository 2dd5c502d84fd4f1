"""Import of LeRobot datasets, v2.1 and v3: our own exports are restored completely, others need a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.errors import EpisodeError, StoreError
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.bag_import import Imported
from opc_ros.store.bag_mapping import ActionFields, ToolFields, derive_action, read_number
from opc_ros.store.lerobot_dataset import DatasetEpisode, LerobotDataset
from opc_ros.store.lerobot_record import RECORD, read_record
from opc_ros.store.store import Store


@dataclass(frozen=True, slots=True)
class LerobotMapping:
    """What the columns of somebody else's dataset mean: `observation.state[0]`, `action[6]`, `next.success`."""

    robot: str
    behaviour_policy: str
    tool: ToolFields
    camera: str = ""  # a feature of images or video; without it, the only one there is
    aperture_m: str = ""  # without it, the gripper counts as open, `open_aperture_m` wide
    action: ActionFields | None = None  # without it, an action is the tool's motion up to the next step
    label: str = ""  # a column whose last row is above one half for a success, or: success, failure
    object_set: str = ""
    recorded: str = ""  # when the first episode began, such as 2026-11-16T08:00; default: when the dataset was written
    open_aperture_m: float = 0.08
    gripper_change_m: float = 0.01


def import_lerobot(
    store: Store | None, folder: Path, mapping: LerobotMapping | None = None, *, report: Report = ignore_progress
) -> Imported:
    """Append every episode of a dataset; those that cannot be imported are skipped, with the reason.

    Without a store nothing is written, and the result says what would be.
    """
    dataset = LerobotDataset(folder)
    began_ns = _beginning(dataset, mapping)
    ids: list[str] = []
    skipped: list[str] = []
    for found in dataset.episodes():
        report(found.index, dataset.total)
        name = f"{folder.name}-{found.index:06d}"
        try:
            record = found.meta.get(RECORD)
            if record is not None:
                kept = read_record(record, where=f"{folder}: episode {found.index}")
                name, episode = kept.header.id, kept.to_episode(dataset.images(found, dataset.camera("")))
            elif mapping is not None:
                episode = _map(name, dataset, found, mapping, began_ns)
            else:
                raise StoreError(f"{folder} was not exported by opc: say with --mapping what its columns mean")
            began_ns = episode.steps[-1].frame.stamp_ns + 1_000_000_000
            if store is not None:
                store.append(episode, health=(f"imported from {folder.name}",))
            ids.append(name)
        except (StoreError, EpisodeError) as error:
            skipped.append(f"{name}: {error}")
    report(dataset.total, dataset.total)
    if not ids and not skipped:
        skipped.append(f"{folder}: holds no episode")
    return Imported(folder, tuple(ids), tuple(skipped))


def _map(name: str, dataset: LerobotDataset, found: DatasetEpisode, mapping: LerobotMapping, began_ns: int) -> Episode:
    rows = [_nest(row) for row in found.rows]
    tools = [
        ToolState(*mapping.tool.read(row), aperture_m=read_number(row, mapping.aperture_m))
        if mapping.aperture_m
        else ToolState(*mapping.tool.read(row), aperture_m=mapping.open_aperture_m)
        for row in rows
    ]
    frames = [
        Frame(began_ns + round(float(row["timestamp"]) * 1e9), _encoding(image), image)
        for row, image in zip(found.rows, dataset.images(found, dataset.camera(mapping.camera)), strict=True)
    ]
    return Episode(
        id=name,
        robot=mapping.robot,
        behaviour_policy=mapping.behaviour_policy,
        steps=tuple(
            GraspStep(frame, tool, action)
            for frame, tool, action in zip(frames, tools, _actions(rows, tools, mapping), strict=True)
        ),
        label=_label(rows, mapping),
        object_set=mapping.object_set,
    )


def _actions(rows: Sequence[Any], tools: Sequence[ToolState], mapping: LerobotMapping) -> Iterator[GraspAction]:
    if mapping.action is not None:
        yield from (mapping.action.read(row) for row in rows)
        return
    for before, after in pairwise(tools):
        yield derive_action(before, after, gripper_change_m=mapping.gripper_change_m)
    yield GraspAction(terminate=True)


def _label(rows: Sequence[Any], mapping: LerobotMapping) -> Label:
    if not mapping.label:
        return Label()
    is_success = mapping.label == "success"
    if mapping.label not in ("success", "failure"):
        is_success = read_number(rows[-1], mapping.label) > 0.5
    return Label(is_success, LabelSource.IMPORT, "imported dataset")


def _nest(row: dict[str, Any]) -> SimpleNamespace:
    """Nest a name such as `observation.state` into attributes, so that paths can be read from it."""
    root = SimpleNamespace()
    for name, value in row.items():
        place = root
        *parents, last = name.split(".")
        for parent in parents:
            if not isinstance(getattr(place, parent, None), SimpleNamespace):
                setattr(place, parent, SimpleNamespace())
            place = getattr(place, parent)
        setattr(place, last, value)
    return root


def _encoding(image: bytes) -> Literal["png", "jpeg"]:
    return "png" if image.startswith(b"\x89PNG") else "jpeg"


def _beginning(dataset: LerobotDataset, mapping: LerobotMapping | None) -> int:
    if mapping is None or not mapping.recorded:
        return dataset.written_ns
    try:
        moment = datetime.fromisoformat(mapping.recorded)
    except ValueError:
        raise StoreError(f"recorded is {mapping.recorded!r}, expected a date such as 2026-11-16T08:00") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9)
