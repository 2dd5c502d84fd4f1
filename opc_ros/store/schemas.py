"""The message definitions that an episode file contains, so that any tool can read it without opc_ros."""

from __future__ import annotations

import functools
import re
from importlib import resources

COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
IMAGE = "sensor_msgs/msg/Image"
GRASP_STEP = "opc_interfaces/msg/GraspStep"
TASK_STEP = "opc_interfaces/msg/TaskStep"
EPISODE_EVENT = "opc_interfaces/msg/EpisodeEvent"
LABEL = "opc_interfaces/msg/Label"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
JOINT_STATE = "sensor_msgs/msg/JointState"
TF = "tf2_msgs/msg/TFMessage"
WIRE_TYPES = (CAMERA_INFO, JOINT_STATE, TF)  # kept unchanged beside the steps, for other readers

_SEPARATOR = "=" * 80
_FIELD_TYPE = re.compile(r"^([A-Za-z]\w*(?:/[A-Za-z]\w*)?)(?:\[[^\]]*\])?\s+[a-z]\w*\s*(?:#.*)?$", re.MULTILINE)
_BUILT_IN = re.compile(r"bool|byte|char|w?string|float(32|64)|u?int(8|16|32|64)")


def definition(name: str) -> str:
    """The text of one message's definition, as ROS 2 ships it."""
    return resources.files(__package__).joinpath("definitions", f"{name}.msg").read_text(encoding="utf-8")


@functools.cache
def schema(name: str) -> bytes:
    """A definition with all definitions that it depends on, in the form of MCAP's `ros2msg` encoding."""
    parts = [definition(name)]
    for needed in _all_needed(name):
        package, _, kind = needed.partition("/msg/")
        parts.append(f"{_SEPARATOR}\nMSG: {package}/{kind}\n{definition(needed)}")
    return "\n".join(part.rstrip("\n") for part in parts).encode("utf-8") + b"\n"


@functools.lru_cache(maxsize=64)
def is_current(name: str, data: bytes) -> bool:
    """Whether a schema found in a file has the same layout as today's; comments do not count."""
    try:
        return _fields(data) == _fields(schema(name))
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _fields(data: bytes) -> list[str]:
    lines = (line.partition("#")[0].split() for line in data.decode("utf-8").splitlines())
    return [" ".join(words) for words in lines if words]


def _all_needed(name: str) -> list[str]:
    found: list[str] = []
    waiting = _directly_needed(name)
    while waiting:
        needed = waiting.pop(0)
        if needed not in found:
            found.append(needed)
            waiting += _directly_needed(needed)
    return found


def _directly_needed(name: str) -> list[str]:
    package = name.partition("/")[0]
    kinds = [kind for kind in _FIELD_TYPE.findall(definition(name)) if _BUILT_IN.fullmatch(kind) is None]
    return [kind.replace("/", "/msg/") if "/" in kind else f"{package}/msg/{kind}" for kind in kinds]
