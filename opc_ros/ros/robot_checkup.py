"""A live check of one robot from driver to guard: each part, with what was seen of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from opc_interfaces.msg import RobotStatus
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.checks import SystemCheck
from opc_ros.bringup.lab_names import in_lab
from opc_ros.camera import find_lens_difference
from opc_ros.errors import ArmError
from opc_ros.recording.settings import RecorderSettings
from opc_ros.ros import convert, topics
from opc_ros.ros.arm_survey import looking_node
from opc_ros.ros.console_node import STATES
from opc_ros.ros.joint_messages import reading_from_msg

FEWEST_HZ = 20.0  # of joint states; below this, a guard notices a silent driver too late
LARGEST_SKEW_S = 0.5
LARGEST_LENS_DIFFERENCE = 0.01  # of focal length or image width; calibrations of one camera agree better than this


@dataclass(slots=True)
class Heard:
    """What arrived on one topic."""

    count: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    latest: Any = None
    skews_s: list[float] = field(default_factory=list)  # our clock minus the timestamp, on arrival

    def take(self, message: Any) -> None:
        now_s = time.monotonic()
        self.first_s = self.first_s or now_s
        self.last_s, self.latest, self.count = now_s, message, self.count + 1
        stamp = getattr(getattr(message, "header", None), "stamp", None)
        if stamp is not None and (stamp.sec or stamp.nanosec):
            self.skews_s.append((time.time_ns() - convert.stamp_to_ns(stamp)) / 1e9)

    @property
    def rate_hz(self) -> float:
        return (self.count - 1) / (self.last_s - self.first_s) if self.count > 1 and self.last_s > self.first_s else 0.0


def check_robot(
    robot: str, arm: ArmSettings, *, arm_domain: int | None, lab_domain: int | None, wait_s: float = 5.0
) -> Iterator[SystemCheck]:
    """Listen for a while in the arm's domain and in the lab's, then report what was heard."""
    named = arm.with_full_names()

    def full(name: str) -> str:
        return name if name.startswith("/") else in_lab(f"/{robot}/{name}")

    joints, camera, lens, gripper, guard, relayed = Heard(), Heard(), Heard(), Heard(), Heard(), Heard()
    with looking_node(arm_domain) as at_arm, looking_node(lab_domain) as in_the_lab:
        node = at_arm.node
        image = CompressedImage if arm.camera.is_compressed else Image
        node.create_subscription(JointState, full(named.joint_states), joints.take, qos_profile_sensor_data)
        node.create_subscription(JointState, full(named.gripper.state), gripper.take, qos_profile_sensor_data)
        node.create_subscription(image, full(named.camera.topic), camera.take, qos_profile_sensor_data)
        infos = RecorderSettings(image_topic=full(named.camera.topic)).find_camera_info_topic()
        node.create_subscription(CameraInfo, infos, lens.take, qos_profile_sensor_data)
        node.create_subscription(RobotStatus, full(arm.guard or "arm_guard/status"), guard.take, topics.LATEST)
        in_the_lab.node.create_subscription(JointState, full(named.joint_states), relayed.take, qos_profile_sensor_data)
        ends = time.monotonic() + wait_s
        while time.monotonic() < ends:
            at_arm.pulse(0.02)
            in_the_lab.pulse(0.005)
        publishers = node.count_publishers(full(named.joint_states))
        listeners = _controller_listeners(node, full(named.controller), arm.controller_by)
        grippers = _gripper_listeners(node, full(named.gripper.command), arm.gripper.driver)
    yield _check_driver(full(named.joint_states), joints, publishers)
    yield from _check_joints(arm, joints)
    yield _check_listeners("controller", full(named.controller), listeners, arm.controller_by)
    yield _check_gripper(arm, full(named.gripper.command), gripper, grippers)
    yield _check_camera(full(named.camera.topic), camera, arm)
    yield from _check_calibration(infos, lens, arm)
    yield _check_clock({"joint states": joints, "images": camera})
    yield _check_guard(guard)
    yield _check_gateway(relayed, is_private=arm_domain != lab_domain)


def _check_driver(topic: str, joints: Heard, publishers: int) -> SystemCheck:
    if not joints.count:
        where = "nobody publishes it" if not publishers else f"{publishers} publish it, but nothing came"
        return SystemCheck(
            "driver", "missing", f"no joint states on {topic}: {where}", "start the driver, or correct joint_states"
        )
    if publishers > 1:
        return SystemCheck(
            "driver", "missing", f"{publishers} publish {topic}: one arm has one driver", "stop the other"
        )
    seen = f"{joints.rate_hz:.0f} joint states per second on {topic}"
    if joints.rate_hz < FEWEST_HZ:
        return SystemCheck("driver", "missing", f"{seen}, expected at least {FEWEST_HZ:.0f}", "raise the driver's rate")
    return SystemCheck("driver", "ok", seen)


def _check_joints(arm: ArmSettings, joints: Heard) -> Iterator[SystemCheck]:
    if joints.latest is None:
        return
    try:
        reading = reading_from_msg(joints.latest, arm.joint_names)
    except ArmError as error:
        yield SystemCheck("joints", "missing", str(error), "correct joint_names in the arm file")
        return
    if reading is None:
        heard = ", ".join(joints.latest.name)
        yield SystemCheck("joints", "missing", f"the driver names {heard}", "correct joint_names in the arm file")
        return
    pose = arm.kinematics().locate_tool(reading.positions_rad)
    degrees = " ".join(f"{math.degrees(angle):+.0f}" for angle in reading.positions_rad)
    beyond = arm.joint_limits().position_violations(reading.positions_rad)
    speeds = (
        "velocities told" if reading.velocities_rad_s is not None else "no velocities: motion is judged by positions"
    )
    if beyond:
        yield SystemCheck("limits", "missing", "; ".join(beyond), "move the arm by hand, or correct the URDF")
    else:
        yield SystemCheck("limits", "ok", f"joints at {degrees} deg, within their limits; {speeds}")
    outside = arm.workspace.clamp((pose.x_m, pose.y_m, pose.z_m))[1]
    tilt = f"{math.degrees(pose.tilt_rad):.0f} deg off straight down"
    where = f"tool at ({pose.x_m:.3f}, {pose.y_m:.3f}, {pose.z_m:.3f}) m, {tilt}"
    if outside:
        yield SystemCheck("tool", "optional", f"{where}; {'; '.join(outside)}", "measure with a ruler; then move it in")
    else:
        yield SystemCheck("tool", "ok", f"{where}: measure it once with a ruler")


def _check_listeners(what: str, name: str, listeners: int, by: str) -> SystemCheck:
    if not listeners:
        return SystemCheck(what, "missing", f"nobody takes trajectories at {name} (by {by})", "activate the controller")
    return SystemCheck(what, "ok", f"{name} takes trajectories, by {by}")


def _check_gripper(arm: ArmSettings, command: str, gripper: Heard, listeners: int) -> SystemCheck:
    name = arm.gripper.joint
    if gripper.latest is None or name not in gripper.latest.name:
        heard = ", ".join(gripper.latest.name) if gripper.latest is not None else "nothing"
        return SystemCheck(
            "gripper", "missing", f"no joint {name!r} in its states, heard {heard}", "correct gripper: joint"
        )
    unit = gripper.latest.position[list(gripper.latest.name).index(name)]
    width_mm = 1000 * unit * arm.gripper.metres_per_unit
    if not listeners:
        return SystemCheck("gripper", "missing", f"nobody takes commands at {command}", "start the gripper's driver")
    return SystemCheck("gripper", "ok", f"{width_mm:.0f} mm open; {command} takes commands")


def _check_camera(topic: str, camera: Heard, arm: ArmSettings) -> SystemCheck:
    if camera.latest is None:
        kind = "CompressedImage" if arm.camera.is_compressed else "Image"
        return SystemCheck("camera", "missing", f"no {kind} on {topic}", "start the camera, or correct camera: topic")
    seen = f"{camera.rate_hz:.1f} images per second on {topic}"
    if not arm.camera.is_compressed:
        return SystemCheck(
            "camera", "ok", f"{seen}, {camera.latest.width}x{camera.latest.height}, {camera.latest.encoding}"
        )
    image = cv2.imdecode(np.frombuffer(bytes(camera.latest.data), dtype=np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        return SystemCheck("camera", "missing", f"{seen}, but they cannot be decoded", "send JPEG or PNG")
    return SystemCheck("camera", "ok", f"{seen}, {image.shape[1]}x{image.shape[0]}")


def _check_calibration(topic: str, lens: Heard, arm: ArmSettings) -> Iterator[SystemCheck]:
    """Compare with CameraInfo, to notice a changed camera, or one whose images are scaled or cropped."""
    camera = arm.camera.calibration
    if camera is None:
        return
    if lens.latest is None:
        line = f"no CameraInfo on {topic} to compare the arm file's calibration with"
        yield SystemCheck("calibration", "optional", line, "let the camera publish it beside its images")
        return
    told = np.array(lens.latest.k).reshape(3, 3)
    seen = f"the camera says {_describe_lens(told, lens.latest.width, lens.latest.height)}"
    difference = find_lens_difference(camera, told, lens.latest.width, lens.latest.height)
    if difference <= LARGEST_LENS_DIFFERENCE:
        yield SystemCheck("calibration", "ok", f"{seen}, like the arm file")
        return
    own = camera.find_lens()
    expected = "not a pinhole camera" if own is None else _describe_lens(own, camera.width, camera.height)
    off = f"{difference:.1%} off" if math.isfinite(difference) else "which cannot be scaled to it"
    yield SystemCheck(
        "calibration",
        "missing",
        f"{seen}, the arm file's calibration {expected}: {off}, allowed {LARGEST_LENS_DIFFERENCE:.0%}",
        "restore the camera's settings, or recalibrate it in the arm file",
    )


def _describe_lens(lens: np.ndarray, width: int, height: int) -> str:
    focal, centre = f"{lens[0, 0]:.1f} x {lens[1, 1]:.1f}", f"({lens[0, 2]:.1f}, {lens[1, 2]:.1f})"
    return f"focal length {focal} and centre {centre} at {width}x{height}"


def _check_clock(streams: dict[str, Heard]) -> SystemCheck:
    said = {name: float(np.median(heard.skews_s)) for name, heard in streams.items() if heard.skews_s}
    if not said:
        return SystemCheck(
            "clock", "missing", "no message received has a timestamp", "make driver and camera set timestamps"
        )
    text = ", ".join(f"{name} {1000 * skew:+.0f} ms old" for name, skew in said.items())
    if any(not -LARGEST_SKEW_S < skew < LARGEST_SKEW_S for skew in said.values()):
        return SystemCheck(
            "clock", "missing", text, "synchronise the clocks (chrony) of driver, camera and this machine"
        )
    return SystemCheck("clock", "ok", text)


def _check_guard(guard: Heard) -> SystemCheck:
    if guard.latest is None:
        return SystemCheck("guard", "missing", "not heard: without it the arm does not move", "opc up hardware")
    state = STATES.get(guard.latest.state, "unknown")
    reason = f": {guard.latest.reason}" if guard.latest.reason else ""
    return SystemCheck("guard", "missing" if state == "fault" else "ok", f"{state}{reason}")


def _check_gateway(relayed: Heard, *, is_private: bool) -> SystemCheck:
    if not is_private:
        return SystemCheck(
            "gateway", "optional", "driver and lab share one ROS domain", "give the arm a domain of its own"
        )
    if not relayed.count:
        return SystemCheck("gateway", "missing", "no joint states reach the lab's domain", "opc up hardware")
    return SystemCheck("gateway", "ok", f"{relayed.rate_hz:.0f} joint states per second reach the lab's domain")


def _controller_listeners(node: Node, controller: str, by: str) -> int:
    if by == "topic":
        return int(node.count_subscribers(f"{controller}/joint_trajectory"))
    return int(node.count_services(f"{controller}/follow_joint_trajectory/_action/send_goal"))


def _gripper_listeners(node: Node, command: str, driver: str) -> int:
    if driver in ("float64", "trajectory"):
        return int(node.count_subscribers(command))
    return int(node.count_services(f"{command}/_action/send_goal"))
