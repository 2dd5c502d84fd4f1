"""Settings of a recorder: one field for each key of config/recorder.yaml and each parameter of its node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from opc_ros.arms.settings import GripperSettings
from opc_ros.config import described
from opc_ros.grasp import ActionBounds


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Where to listen, where to write, and what counts as unhealthy."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    keys: str = described("", "folder with people.yaml: relabelling needs a labeller's signature; empty: it does not")
    store: str = described("store", "folder of the validation store; created if it does not exist")

    image_topic: str = described("camera/image/compressed", "camera frames")
    image_kind: Literal["compressed", "raw"] = described("compressed", "CompressedImage or Image")
    step_kind: Literal["step", "action"] = described("step", "GraspStep, or separate GraspAction and ToolState")
    step_topic: str = described("grasp/step", "opc_interfaces/GraspStep: tool, action as chosen, action as sent")
    action_topic: str = described("grasp/action", "opc_interfaces/GraspAction; only for step_kind action")
    tool_topic: str = described("tool/state", "opc_interfaces/ToolState; only for step_kind action")
    max_tool_apart_s: float = described(0.05, "how far apart a frame and its tool state may be", low=0)
    event_topic: str = described("episode/event", "opc_interfaces/EpisodeEvent: begin, end, discard, abort")
    camera_info_topic: str = described("", "sensor_msgs/CameraInfo, kept as published; empty: next to the images")
    joint_topic: str = described("joint_states", "sensor_msgs/JointState, kept as published; empty: none")
    tf_topic: str = described("/tf_static", "static tf2_msgs/TFMessage, kept as published; empty: none")
    max_wire_rate_hz: float = described(100.0, "messages kept per second on each of these topics; 0: all", low=0)
    label_topic: str = described("episode/label", "opc_interfaces/Label: whether an episode succeeded, and who says so")

    frame_buffer_s: float = described(20.0, "how long a frame waits for the step chosen on it", low=0.1)
    frame_buffer_mb: float = described(128.0, "how much memory waiting frames may take", low=1)
    queue_capacity: int = described(256, "steps that may wait for the disk before one is dropped", low=1)
    pairing_timeout_s: float = described(1.0, "how long a step waits for its frame, and an end for its steps", low=0)
    step_timeout_s: float = described(30.0, "an episode without a step for this long is aborted", low=0.1)
    max_steps: int = described(1000, "an episode with more steps is aborted", low=1)

    min_frame_rate_hz: float = described(1.0, "a lower frame rate is reported; 0: never", low=0)
    max_frame_gap_s: float = described(2.0, "a longer time without frames is reported", low=0)
    max_frame_latency_s: float = described(0.5, "a frame older on arrival is reported as late", low=0)
    frozen_steps: int = described(
        2, "reject an episode after this many identical frames while the arm moved; 0: never", low=0
    )
    max_clock_jump_s: float = described(0.5, "a larger jump of the computer's clock is reported", low=0)
    min_disk_free_mb: float = described(1000.0, "with less free, no further episode is begun", low=0)
    max_displacement_m: float = described(0.08, "an action that goes farther along an axis is reported", low=0)
    max_rotation_rad: float = described(math.pi / 4, "an action that turns farther is reported", low=0)

    has_gripper_rule: bool = described(False, "label by gripper width where the end event does not")
    held_from_m: float = described(
        GripperSettings().held_from_m, "smallest gripper width that counts as holding something", low=0
    )
    held_to_m: float = described(
        GripperSettings().held_to_m, "largest gripper width that counts as holding something", low=0
    )

    behaviour_policy: str = described("manual", "of episodes begun by hand without naming one")
    object_set: str = described("", "of episodes begun by hand without naming one")
    button_labeller: str = described("button", "who labels through the services without arguments")

    def __post_init__(self) -> None:
        if self.held_from_m > self.held_to_m:
            raise ValueError(f"held_from_m {self.held_from_m} is above held_to_m {self.held_to_m}")
        if not self.button_labeller:
            raise ValueError("button_labeller is empty, expected a name")

    def find_camera_info_topic(self) -> str:
        """Where camera drivers publish it: beside the images, whatever their transport."""
        if self.camera_info_topic:
            return self.camera_info_topic
        folder, _, _ = self.image_topic.removesuffix("/compressed").rpartition("/")
        is_absolute = self.image_topic.startswith("/")
        return f"{folder}/camera_info" if folder or is_absolute else "camera_info"

    @property
    def bounds(self) -> ActionBounds:
        return ActionBounds(displacement_m=self.max_displacement_m, rotation_rad=self.max_rotation_rad)
