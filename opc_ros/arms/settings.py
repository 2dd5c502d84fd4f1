"""How one arm, its gripper and its camera are reached, and how far they may go: the contents of config/arm.yaml."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Literal

from opc_ros.arms.kinematics import Kinematics, ToolMount, ToolPose
from opc_ros.arms.limits import JointLimits, WorkspaceBox
from opc_ros.arms.model import ArmModel, load_arm_model
from opc_ros.camera import CameraSpec
from opc_ros.config import described
from opc_ros.errors import ConfigError
from opc_ros.grasp import ActionBounds

NAME = re.compile(r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)  # what ROS accepts for topics and namespaces


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which serial arm it is; the positions and limits of its joints are read from its URDF."""

    urdf: str = "opc_ros:arms/urdf/lbr_iiwa_14_r820.urdf"  # package:path, or a path
    flange: str = "flange"  # link of the URDF that carries the tool
    # Tool down, elbow where it should stay: inverse kinematics start from here.
    posture_deg: tuple[float, ...] = (0.0, 35.0, 0.0, -85.0, 0.0, 60.0, 0.0)
    held_joints: tuple[int, ...] = (3,)  # with more than six joints: those that stay as in the posture, counted from 1

    def __post_init__(self) -> None:
        for joint in self.held_joints:
            if not 1 <= joint <= len(self.posture_deg):
                raise ValueError(f"held joint {joint}, expected from 1 to {len(self.posture_deg)}")


@dataclass(frozen=True, slots=True)
class BodySettings:
    """What a twin shows and moves: any URDF with the same joints; its hand is replaced with the twin's gripper."""

    urdf: str = "pybullet_data:kuka_iiwa/model.urdf"
    link: str = "lbr_iiwa_link_7"  # carries the gripper; links attached to it in the URDF are left out
    link_to_flange_m: float = 0.045  # along that link's z axis
    # Links that no camera sees, wherever the tool is in its workspace.
    unseen_links: tuple[str, ...] = ("lbr_iiwa_link_0", "lbr_iiwa_link_1", "lbr_iiwa_link_2")
    parked_rad: tuple[float, ...] = (1.9, 0.2, 0.0, -1.2, 0.0, 1.0, 0.0)  # out of the way of falling objects
    largest_yaw_rad: float = 2.6  # either way; beyond it the last joint meets its limit in a corner of the box


@dataclass(frozen=True, slots=True)
class StartPose:
    """Where every episode begins, tool straight down, in the base frame."""

    x_m: float = 0.60
    y_m: float = 0.0
    z_m: float = 0.22
    yaw_rad: float = 0.0

    def to_pose(self) -> ToolPose:
        return ToolPose(self.x_m, self.y_m, self.z_m, self.yaw_rad)


@dataclass(frozen=True, slots=True)
class MotionSettings:
    """How fast the arm goes, and when a motion counts as ended."""

    speed_fraction: float = described(0.5, "of the URDF's joint velocities", low=0.01, high=1.0)
    joint_margin_deg: float = described(2.0, "kept from the URDF's joint limits", low=0.0, high=30.0)
    acceleration_rad_s2: float = described(6.0, "of any joint", low=0.1, high=50.0)
    jerk_rad_s3: float = described(60.0, "of any joint", low=1.0, high=5000.0)
    tool_speed_m_s: float = described(0.5, "of the tool in a straight line", low=0.005, high=2.0)
    arrival_rad: float = described(0.002, "a joint this near its goal has arrived", low=1e-4, high=0.1)
    rest_rad_s: float = described(0.01, "a joint slower than this is at rest", low=1e-4, high=0.5)
    patience: float = described(4.0, "how many times its planned duration a motion may take", low=1.0, high=100.0)


@dataclass(frozen=True, slots=True)
class GripperSettings:
    """A two-finger gripper: how its opening is commanded and measured, and when it holds something."""

    driver: Literal["float64", "trajectory", "gripper_command", "parallel_gripper_command"] = "float64"
    command: str = "gripper/command"  # topic, or action for the last two
    state: str = "gripper/joint_states"  # sensor_msgs/JointState
    joint: str = "gripper_width"  # in the state, and in the command where the driver names joints
    metres_per_unit: float = described(1.0, "opening for one unit of the joint: 2 if it reports one finger's travel")
    open_m: float = described(0.08, "opening when open", low=0.0, high=0.5)
    closed_m: float = described(0.0, "opening commanded to close", low=0.0, high=0.5)
    largest_effort: float = described(40.0, "for gripper actions only", low=0.0)
    held_from_m: float = described(0.008, "after closing and lifting, an opening from here", low=0.0, high=0.5)
    held_to_m: float = described(0.075, "to here means that something is held", low=0.0, high=0.5)

    def __post_init__(self) -> None:
        if not self.metres_per_unit:
            raise ValueError("metres_per_unit is 0, expected the opening for one unit of the joint")
        if not self.closed_m < self.open_m:
            raise ValueError(
                f"gripper closes to {self.closed_m} m and opens to {self.open_m} m, expected open_m above closed_m"
            )
        if not self.held_from_m < self.held_to_m:
            raise ValueError(f"held from {self.held_from_m} to {self.held_to_m} m, expected from less to more")

    def holds(self, aperture_m: float) -> bool:
        """The rule for success on an arm that cannot look into its own hand."""
        return self.held_from_m <= aperture_m <= self.held_to_m


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """Where images come from."""

    topic: str = "camera/image/compressed"
    is_compressed: bool = True  # sensor_msgs/CompressedImage; else sensor_msgs/Image
    is_reliable: bool = True
    timeout_s: float = described(5.0, "without a new image the camera is lost", low=0.05)
    # Its projection, if you have calibrated it: candidates that expect another view are refused.
    calibration: CameraSpec | None = None
    largest_offset: float = described(
        0.05,
        "how far a candidate's camera may be off this one on average, as a fraction of the image width",
        low=0.0,
        high=1.0,
    )


@dataclass(frozen=True, slots=True)
class ArmSettings:
    """One arm. Topics and services of driver and camera without a leading slash are below the namespace."""

    robot: str = "iiwa"
    namespace: str = ""  # of driver and camera; empty: the robot's name
    model: ModelSettings = field(default=ModelSettings())
    body: BodySettings = field(default=BodySettings())
    joint_names: tuple[str, ...] = ("A1", "A2", "A3", "A4", "A5", "A6", "A7")  # the driver's, base first
    joint_states: str = "joint_states"
    controller: str = "joint_trajectory_controller"
    controller_by: Literal["topic", "action"] = "topic"  # <controller>/joint_trajectory or /follow_joint_trajectory
    lay_out: str = ""  # service that fills a simulated bin; empty for real arms
    guard: str = ""  # topic of the guard's status, below the robot's name; no motion unless it hears us
    tool: ToolMount = field(default=ToolMount(z_m=0.145))
    workspace: WorkspaceBox = field(default=WorkspaceBox(low_m=(0.45, -0.15, 0.02), high_m=(0.75, 0.15, 0.34)))
    start: StartPose = field(default=StartPose())
    bounds: ActionBounds = field(default=ActionBounds())
    motion: MotionSettings = field(default=MotionSettings())
    gripper: GripperSettings = field(default=GripperSettings())
    camera: CameraSettings = field(default=CameraSettings())
    guard_timeout_s: float = described(
        0.5, "no motion unless the guard has reported this recently that it is watching", low=0.05
    )
    stamp_tolerance_s: float = described(1.0, "joint states and images with an older timestamp are ignored")
    measurement_timeout_s: float = described(0.5, "joint states older than this: the arm is lost", low=0.02)
    connect_timeout_s: float = described(10.0, "how long to wait for driver, gripper and camera", low=0.1)
    heartbeat_hz: float = described(20.0, "rate of heartbeats to the driver", low=1.0, high=200.0)

    def __post_init__(self) -> None:
        joints = len(self.joint_names)
        if len(set(self.joint_names)) != joints:
            raise ValueError(f"joint_names {', '.join(self.joint_names)}: expected different names")
        for key, angles in (("model: posture_deg", self.model.posture_deg), ("body: parked_rad", self.body.parked_rad)):
            if len(angles) != joints:
                raise ValueError(f"{key} has {len(angles)} angles, expected {joints} as joint_names has")
        if not NAME.fullmatch(self.robot) or "/" in self.robot:
            raise ValueError(f"robot {self.robot!r}: expected a name of letters, digits and underscores")
        for key, name in self._graph_names().items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{key} {name!r}: expected names of letters, digits and underscores with / between")
        start = (self.start.x_m, self.start.y_m, self.start.z_m)
        for line in self.workspace.clamp(start)[1]:
            raise ValueError(f"start: {line}")

    def _graph_names(self) -> dict[str, str]:
        names = {
            "namespace": self.namespace,
            "joint_states": self.joint_states,
            "controller": self.controller,
            "lay_out": self.lay_out,
            "guard": self.guard,
            "gripper: command": self.gripper.command,
            "gripper: state": self.gripper.state,
            "camera: topic": self.camera.topic,
        }
        may_be_empty = ("namespace", "lay_out", "guard")
        return {key: name for key, name in names.items() if name or key not in may_be_empty}

    def with_full_names(self) -> ArmSettings:
        """These settings with absolute names for driver and camera, for a node in the robot's namespace (for stops)."""
        if not self.namespace:
            return self
        above = "/" + self.namespace.strip("/")

        def full(name: str) -> str:
            return name if not name or name.startswith("/") else f"{above}/{name}"

        return replace(
            self,
            namespace="",
            joint_states=full(self.joint_states),
            controller=full(self.controller),
            lay_out=full(self.lay_out),
            gripper=replace(self.gripper, command=full(self.gripper.command), state=full(self.gripper.state)),
            camera=replace(self.camera, topic=full(self.camera.topic)),
        )

    def load_model(self) -> ArmModel:
        """The arm's joints from its URDF."""
        model = load_arm_model(self.model.urdf, self.model.flange)
        if model.joints != len(self.joint_names):
            raise ConfigError(
                f"{self.model.urdf}: joints {', '.join(model.joint_names)} lead to {self.model.flange}, "
                f"expected {len(self.joint_names)} as joint_names has"
            )
        return model

    def kinematics(self) -> Kinematics:
        posture = [math.radians(angle) for angle in self.model.posture_deg]
        held = [joint - 1 for joint in self.model.held_joints]
        return Kinematics(self.load_model(), self.tool, posture_rad=posture, held=held)

    def joint_limits(self) -> JointLimits:
        return JointLimits(
            self.load_model(),
            speed_fraction=self.motion.speed_fraction,
            margin_deg=self.motion.joint_margin_deg,
            acceleration_rad_s2=self.motion.acceleration_rad_s2,
            jerk_rad_s3=self.motion.jerk_rad_s3,
        )
