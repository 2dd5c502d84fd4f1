"""Conversion between the types of opc_ros.grasp and the messages that mirror them."""

from __future__ import annotations

import math
import struct
from array import array
from typing import TYPE_CHECKING

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Vector3
from opc_interfaces.msg import GraspAction as GraspActionMsg
from opc_interfaces.msg import GraspStep as GraspStepMsg
from opc_interfaces.msg import Label as LabelMsg
from opc_interfaces.msg import ToolState as ToolStateMsg
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.errors import EpisodeError
from opc_ros.grasp import GraspAction, GraspStep, ToolState

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE_FRAME = "base"
CAMERA_FRAME = "camera"

_CHANNELS: Mapping[str, int] = {"rgb8": 3, "bgr8": 3, "mono8": 1}
_SOURCES: Mapping[int, LabelSource] = {
    LabelMsg.SOURCE_NONE: LabelSource.NONE,
    LabelMsg.SOURCE_EPISODE_END: LabelSource.EPISODE_END,
    LabelMsg.SOURCE_GRIPPER_WIDTH: LabelSource.GRIPPER_WIDTH,
    LabelMsg.SOURCE_PERSON: LabelSource.PERSON,
    LabelMsg.SOURCE_IMPORT: LabelSource.IMPORT,
}
_SOURCE_NUMBERS: Mapping[LabelSource, int] = {source: number for number, source in _SOURCES.items()}


def stamp_to_ns(stamp: Time) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def stamp_from_ns(stamp_ns: int) -> Time:
    return Time(sec=stamp_ns // 1_000_000_000, nanosec=stamp_ns % 1_000_000_000)


def stamp_of_raw(data: bytes) -> int:
    """The timestamp of a serialised message that begins with a header, without deserialising the rest."""
    if len(data) < 12 or data[:2] != b"\x00\x01":
        raise EpisodeError(f"message of {len(data)} bytes begins with {data[:2].hex()}, expected little-endian CDR")
    seconds, nanoseconds = struct.unpack_from("<iI", data, 4)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def header(stamp_ns: int, frame_id: str = BASE_FRAME) -> Header:
    return Header(stamp=stamp_from_ns(stamp_ns), frame_id=frame_id)


def tool_to_msg(tool: ToolState, stamp_ns: int, *, frame_id: str = BASE_FRAME) -> ToolStateMsg:
    return ToolStateMsg(
        header=header(stamp_ns, frame_id),
        position_m=Point(x=tool.x_m, y=tool.y_m, z=tool.z_m),
        yaw_rad=tool.yaw_rad,
        aperture_m=tool.aperture_m,
    )


def tool_from_msg(msg: ToolStateMsg) -> ToolState:
    tool = ToolState(
        x_m=msg.position_m.x,
        y_m=msg.position_m.y,
        z_m=msg.position_m.z,
        yaw_rad=msg.yaw_rad,
        aperture_m=msg.aperture_m,
    )
    if not all(map(math.isfinite, (tool.x_m, tool.y_m, tool.z_m, tool.yaw_rad, tool.aperture_m))):
        raise EpisodeError(f"tool state {tool}: expected finite numbers")
    return tool


def action_to_msg(
    action: GraspAction,
    *,
    robot: str,
    episode_id: str,
    index: int,
    observed_ns: int,
    chosen_ns: int,
    frame_id: str = BASE_FRAME,
) -> GraspActionMsg:
    """`observed_ns` is the timestamp of the frame that the action was chosen on; `chosen_ns` is when that happened."""
    x, y, z = action.displacement_m
    return GraspActionMsg(
        header=header(chosen_ns, frame_id),
        robot=robot,
        episode_id=episode_id,
        index=index,
        observation_stamp=stamp_from_ns(observed_ns),
        displacement_m=Vector3(x=x, y=y, z=z),
        rotation_sin=math.sin(action.rotation_rad),
        rotation_cos=math.cos(action.rotation_rad),
        open_gripper=action.open_gripper,
        close_gripper=action.close_gripper,
        terminate=action.terminate,
    )


def action_from_msg(msg: GraspActionMsg) -> GraspAction:
    if not (math.isfinite(msg.rotation_sin) and math.isfinite(msg.rotation_cos)):
        raise EpisodeError(f"action: rotation sine {msg.rotation_sin}, cosine {msg.rotation_cos}: expected finite")
    if msg.rotation_sin == 0.0 and msg.rotation_cos == 0.0:
        raise EpisodeError("action: sine and cosine of the rotation are both 0, expected a point on the unit circle")
    return GraspAction(
        displacement_m=(msg.displacement_m.x, msg.displacement_m.y, msg.displacement_m.z),
        rotation_rad=math.atan2(msg.rotation_sin, msg.rotation_cos),
        open_gripper=msg.open_gripper,
        close_gripper=msg.close_gripper,
        terminate=msg.terminate,
    )


def step_to_msg(
    step: GraspStep, *, robot: str, episode_id: str, index: int, chosen_ns: int, frame_id: str = BASE_FRAME
) -> GraspStepMsg:
    """The step without its image, which is published on the camera's topic with the same timestamp."""
    observed_ns = step.frame.stamp_ns

    def to_msg(action: GraspAction) -> GraspActionMsg:
        return action_to_msg(
            action,
            robot=robot,
            episode_id=episode_id,
            index=index,
            observed_ns=observed_ns,
            chosen_ns=chosen_ns,
            frame_id=frame_id,
        )

    return GraspStepMsg(
        header=header(observed_ns, frame_id),
        robot=robot,
        episode_id=episode_id,
        index=index,
        tool=tool_to_msg(step.tool, observed_ns, frame_id=frame_id),
        action=to_msg(step.action),
        is_clamped=step.sent is not None,
        sent=to_msg(step.sent or step.action),
    )


def frame_to_msg(frame: Frame) -> CompressedImage | Image:
    """The same bytes as a message: CompressedImage for jpeg and png, Image for raw encodings."""
    data = array("B", frame.data)  # messages check any other type byte by byte
    if frame.encoding in ("jpeg", "png"):
        return CompressedImage(header=header(frame.stamp_ns, frame.frame_id), format=frame.encoding, data=data)
    return Image(
        header=header(frame.stamp_ns, frame.frame_id),
        width=frame.width,
        height=frame.height,
        encoding=frame.encoding,
        step=frame.width * _CHANNELS[frame.encoding],
        data=data,
    )


def frame_from_msg(msg: CompressedImage | Image) -> Frame:
    """The bytes as the camera sent them, without decoding; only padding at the ends of raw rows is removed."""
    stamp_ns = stamp_to_ns(msg.header.stamp)
    frame_id = msg.header.frame_id or CAMERA_FRAME
    if isinstance(msg, CompressedImage):
        encoding = _compression(msg.format, stamp_ns)
        return Frame(stamp_ns=stamp_ns, encoding=encoding, data=bytes(msg.data), frame_id=frame_id)
    channels = _CHANNELS.get(msg.encoding)
    if channels is None:
        raise EpisodeError(
            f"frame at {stamp_ns} ns: encoding {msg.encoding!r}, expected {', '.join(_CHANNELS)} or a compressed image"
        )
    data, row = bytes(msg.data), msg.width * channels
    if msg.step < row or len(data) != msg.step * msg.height:
        raise EpisodeError(
            f"frame at {stamp_ns} ns: {len(data)} bytes in rows of {msg.step},"
            f" expected {msg.height} rows of at least {row}"
        )
    if msg.step != row:
        data = b"".join(data[start : start + row] for start in range(0, len(data), msg.step))
    return Frame(stamp_ns, msg.encoding, data, msg.width, msg.height, frame_id)


def _compression(text: str, stamp_ns: int) -> str:
    """The compression; CompressedImage.format is `jpeg`, or `rgb8; jpeg compressed bgr8` from image_transport."""
    words = text.lower().replace(";", " ").split()
    if "compresseddepth" not in words:
        for word in words:
            if word in ("jpeg", "jpg"):
                return "jpeg"
            if word == "png":
                return "png"
    raise EpisodeError(f"frame at {stamp_ns} ns: compressed format {text!r}, expected jpeg or png")


def label_to_msg(label: Label, episode_id: str, *, revision: int = 0, stamp_ns: int = 0, note: str = "") -> LabelMsg:
    return LabelMsg(
        episode_id=episode_id,
        value=label_value(label),
        source=_SOURCE_NUMBERS[label.source],
        labeller=label.labeller,
        revision=revision,
        stamp=stamp_from_ns(stamp_ns),
        note=note,
    )


def label_value(label: Label) -> int:
    if label.is_success is None:
        return int(LabelMsg.UNLABELLED)
    return int(LabelMsg.SUCCESS if label.is_success else LabelMsg.FAILURE)


def label_source_number(source: LabelSource) -> int:
    return _SOURCE_NUMBERS[source]


def label_from_msg(msg: LabelMsg) -> Label:
    return label_from_fields(msg.value, msg.source, msg.labeller)


def label_from_fields(value: int, source: int, labeller: str) -> Label:
    """A label from the three fields that Label and EpisodeEvent share."""
    if value == LabelMsg.UNLABELLED:
        return Label()
    if value not in (LabelMsg.FAILURE, LabelMsg.SUCCESS):
        raise EpisodeError(f"label: value {value}, expected 0 (unlabelled), 1 (failure) or 2 (success)")
    if source not in _SOURCES:
        raise EpisodeError(f"label: source {source}, expected 0 to {max(_SOURCES)}")
    return Label(is_success=value == LabelMsg.SUCCESS, source=_SOURCES[source], labeller=labeller)
