"""Recordings of a lab, made with a writer we did not write."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from opc_ros.episode import Frame
from opc_ros.store.bag_mapping import BagMapping, FieldAt, LabelMapping, ToolMapping

TYPES = get_typestore(Stores.ROS2_JAZZY)
TOOL = ToolMapping(
    topic="/tool", x_m="pose.position.x", y_m="pose.position.y", z_m="pose.position.z", orientation="pose.orientation"
)
MAPPING = BagMapping(
    robot="arm1",
    behaviour_policy="teleop",
    camera="/camera",
    tool=TOOL,
    aperture_m=FieldAt(topic="/joints", field="position[1]"),
    label=LabelMapping(topic="/success", field="data"),
    object_set="cups",
)
SECOND = 1_000_000_000


def image(shade: int) -> Frame:
    return Frame.from_image(np.full((24, 32, 3), shade, dtype=np.uint8), 0)


def header(seconds: float = 0.0) -> object:
    stamp = TYPES.types["builtin_interfaces/msg/Time"](sec=int(seconds), nanosec=round(seconds % 1 * SECOND))
    return TYPES.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")


def compressed(shade: int) -> object:
    data = np.frombuffer(image(shade).data, dtype=np.uint8)
    return TYPES.types["sensor_msgs/msg/CompressedImage"](header=header(), format="rgb8; jpeg compressed", data=data)


def padded_image(shade: int) -> object:
    rows = np.zeros((24, 100), dtype=np.uint8)
    rows[:, :96] = shade
    return TYPES.types["sensor_msgs/msg/Image"](
        header=header(), height=24, width=32, encoding="bgr8", is_bigendian=0, step=100, data=rows.ravel()
    )


def pose(x: float, yaw: float) -> object:
    point = TYPES.types["geometry_msgs/msg/Point"](x=x, y=0.1, z=0.3)
    turn = TYPES.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    inner = TYPES.types["geometry_msgs/msg/Pose"](position=point, orientation=turn)
    return TYPES.types["geometry_msgs/msg/PoseStamped"](header=header(), pose=inner)


def joints(aperture_m: float) -> object:
    numbers = np.array([0.0, aperture_m])
    empty = np.array([])
    return TYPES.types["sensor_msgs/msg/JointState"](
        header=header(), name=["a", "gripper"], position=numbers, velocity=empty, effort=empty
    )


def number(value: int) -> object:
    return TYPES.types["std_msgs/msg/Int32"](data=value)


def vector(x: float, y: float, z: float) -> object:
    return TYPES.types["geometry_msgs/msg/Vector3"](x=x, y=y, z=z)


def twist(x: float) -> object:
    zero = vector(0, 0, 0)
    inner = TYPES.types["geometry_msgs/msg/Twist"](linear=vector(x, 0, 0), angular=zero)
    return TYPES.types["geometry_msgs/msg/TwistStamped"](header=header(), twist=inner)


def stamped(message: Any, seconds: float) -> Any:
    return dataclasses.replace(message, header=header(seconds))


def record(folder: Path, messages: list[tuple[float, str, object]], plugin: StoragePlugin = StoragePlugin.MCAP) -> Path:
    """(seconds, topic, message) into a bag."""
    with Writer(folder, version=9, storage_plugin=plugin) as writer:
        links: dict[str, Any] = {}
        for seconds, topic, message in messages:
            kind = message.__msgtype__  # type: ignore[attr-defined]
            if topic not in links:
                links[topic] = writer.add_connection(topic, kind, typestore=TYPES)
            writer.write(links[topic], round(seconds * SECOND), TYPES.serialize_cdr(message, kind))
    return folder


def three_frames(make_image: Callable[[int], object] = compressed) -> list[tuple[float, str, object]]:
    """The tool moves 20 mm along x and turns 0.1 rad from frame to frame; the gripper closes before the last."""
    messages: list[tuple[float, str, object]] = []
    for index, aperture in enumerate((0.08, 0.08, 0.02)):
        at = 1.0 + index
        messages += [
            (at, "/tool", pose(0.5 + 0.02 * index, 0.1 * index)),
            (at + 0.01, "/joints", joints(aperture)),
            (at + 0.02, "/camera", make_image(40 * index + 10)),
        ]
    return [*messages, (4.0, "/success", number(1))]
