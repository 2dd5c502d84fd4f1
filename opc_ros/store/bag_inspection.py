"""List the topics of a ROS recording with their types and rates, and suggest a mapping."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from opc_ros.progress import Report, ignore_progress
from opc_ros.store.bag_mapping import BagMapping, FieldAt, ToolMapping
from opc_ros.store.bag_reading import IMAGE_TYPES, read_messages, read_types

_POSES = {
    "geometry_msgs/msg/PoseStamped": ("pose.position", "pose.orientation"),
    "geometry_msgs/msg/Pose": ("position", "orientation"),
    "geometry_msgs/msg/TransformStamped": ("transform.translation", "transform.rotation"),
    "nav_msgs/msg/Odometry": ("pose.pose.position", "pose.pose.orientation"),
}
_OWN_STEPS = "opc_interfaces/msg/GraspStep"
_JOINTS = "sensor_msgs/msg/JointState"
_GRIPPER_WORDS = ("gripper", "finger", "jaw", "aperture", "width")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic of a recording."""

    name: str
    type: str
    messages: int
    rate_hz: float | None  # from the median gap; None for fewer than two messages
    longest_gap_s: float | None
    is_stamped: bool
    note: str = ""  # a hint for the mapping


@dataclass(frozen=True, slots=True)
class Inspection:
    """A recording, and the mapping that its message types suggest."""

    recording: Path
    duration_s: float
    topics: tuple[TopicFacts, ...]
    suggestion: BagMapping | None  # None if it has no camera or no tool pose
    missing: tuple[str, ...] = ()


@dataclass(slots=True)
class _Heard:
    times_ns: list[int] = field(default_factory=list)
    first: Any = None
    is_stamped: bool = True


def inspect_bag(recording: Path, *, robot: str = "arm1", report: Report = ignore_progress) -> Inspection:
    types = read_types(recording)
    heard = {topic: _Heard() for topic in types}
    for message in read_messages(recording, report=report):
        topic = heard[message.topic]
        topic.times_ns.append(message.received_ns)
        topic.first = topic.first or message.content
        topic.is_stamped &= getattr(message.content, "header", None) is not None
    facts = tuple(_describe(name, types[name], heard[name]) for name in sorted(types))
    times = [stamp for topic in heard.values() for stamp in topic.times_ns]
    suggestion, missing = _suggest(robot, types, heard)
    return Inspection(recording, (max(times) - min(times)) / 1e9 if times else 0.0, facts, suggestion, missing)


def _describe(name: str, kind: str, heard: _Heard) -> TopicFacts:
    gaps = [(after - before) / 1e9 for before, after in pairwise(heard.times_ns)]
    middle = statistics.median(gaps) if gaps else 0.0
    note = ""
    if kind in IMAGE_TYPES:
        note = "a camera"
    elif kind in _POSES:
        note = "a pose: the tool's?"
    elif kind == _JOINTS and heard.first is not None:
        note = "joints " + ", ".join(f"[{index}] {joint}" for index, joint in enumerate(heard.first.name))
    elif heard.first is None and heard.times_ns:
        note = "a type this recording does not describe; it cannot be read"
    return TopicFacts(
        name=name,
        type=kind,
        messages=len(heard.times_ns),
        rate_hz=1 / middle if middle else None,
        longest_gap_s=max(gaps, default=None),
        is_stamped=bool(heard.times_ns) and heard.is_stamped,
        note=note,
    )


def _suggest(robot: str, types: dict[str, str], heard: dict[str, _Heard]) -> tuple[BagMapping | None, tuple[str, ...]]:
    cameras = _most_heard([topic for topic, kind in types.items() if kind in IMAGE_TYPES], heard)
    poses = _most_heard([topic for topic, kind in types.items() if kind in _POSES], heard)
    missing = []
    if _OWN_STEPS in types.values() and not poses:
        return None, ("it is an episode of an opc_ros store: `opc store sync STORE TARGET` copies episodes",)
    if not cameras:
        missing.append(f"no camera: expected a topic of {' or '.join(IMAGE_TYPES)}")
    if not poses:
        missing.append(f"no tool pose: expected a topic of {', '.join(_POSES)}")
    if missing:
        return None, tuple(missing)
    position, orientation = _POSES[types[poses[0]]]
    tool = ToolMapping(
        topic=poses[0], x_m=f"{position}.x", y_m=f"{position}.y", z_m=f"{position}.z", orientation=orientation
    )
    mapping = BagMapping(
        robot=robot,
        behaviour_policy="unknown",
        camera=cameras[0],
        tool=tool,
        aperture_m=_find_aperture(types, heard),
    )
    return mapping, ()


def _most_heard(topics: list[str], heard: dict[str, _Heard]) -> list[str]:
    return sorted((name for name in topics if heard[name].times_ns), key=lambda name: -len(heard[name].times_ns))


def _find_aperture(types: dict[str, str], heard: dict[str, _Heard]) -> FieldAt | None:
    for topic, kind in types.items():
        names = heard[topic].first.name if kind == _JOINTS and heard[topic].first is not None else ()
        for index, joint in enumerate(names):
            if any(word in joint.lower() for word in _GRIPPER_WORDS):
                return FieldAt(topic=topic, field=f"position[{index}]")
    return None


def to_yaml(inspection: Inspection) -> str:
    """The suggestion as a mapping file, with optional entries as comments."""
    mapping = inspection.suggestion
    assert mapping is not None
    tool = mapping.tool
    lines = [
        f"# Written from {inspection.recording.name!r}; check each line before you import with it.",
        f"robot: {mapping.robot}",
        f"behaviour_policy: {mapping.behaviour_policy}  # who or what moved the arm",
        f"camera: {mapping.camera}",
        f"tool: {{topic: {tool.topic}, x_m: {tool.x_m}, y_m: {tool.y_m}, z_m: {tool.z_m},",
        f"       orientation: {tool.orientation}}}  # in the arm's base frame, metres",
    ]
    if mapping.aperture_m is None:
        lines.append(f"# no gripper was recognised: it counts as open, {mapping.open_aperture_m} m wide")
        lines.append('# aperture_m: {topic: /joint_states, field: "position[7]"}')
    else:
        at = mapping.aperture_m
        lines.append(
            f'aperture_m: {{topic: {at.topic}, field: "{at.field}"}}  # metres; check that it is not one finger'
        )
    lines += [
        "# Without the following, actions are the tool's motion from step to step, the whole recording is one episode,",
        "# and it has no label.",
        "# action: {topic: /action, dx_m: displacement.x, dy_m: displacement.y, dz_m: displacement.z}",
        "# episodes: {topic: /phase, field: data, begin: 1, end: 2}",
        "# label: {topic: /success, field: data}  # or: success, failure",
        "# object_set: cups",
        "# step_s: 0.5      # without actions: how often a step is taken",
        "# clock: stamp     # match by the senders' header stamps instead of by time of receipt",
    ]
    return "\n".join(lines) + "\n"
