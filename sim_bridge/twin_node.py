"""The twin as a node: a simulated arm, gripper and camera behind the topics of its driver."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from opc_interfaces.msg import RobotStatus, SafetyEvent
from opc_interfaces.srv import LayOutBin
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, CompressedImage, JointState
from std_msgs.msg import Header

from opc_ros.arms.safety import StopSwitch
from opc_ros.bringup.lab import load_arm
from opc_ros.config import described
from opc_ros.errors import OpcError
from opc_ros.ros import convert, topics
from opc_ros.ros.joint_messages import reading_to_msg
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.robot_frames import RobotFrames
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.services import create_service
from opc_ros.ros.sim_clock import SimClock
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_channel import SafetyReporter, StopChannel
from sim_bridge.arm_model import compose_arm_urdf
from sim_bridge.camera import CameraModel
from sim_bridge.camera_process import CameraProcess
from sim_bridge.driver import DriverState, TwinDriver
from sim_bridge.priority import set_niceness
from sim_bridge.shown_arm import show_over_tray
from sim_bridge.twin_inputs import TwinInputs
from sim_bridge.world import World
from sim_bridge.worlds import find_world

LONGEST_TICK_S = 0.1  # a machine that falls behind slows the twin down instead of making it jump
STATUS_S = 0.5
FRAMES_S = 0.02  # tf is only for display: a fraction of the joint states' rate is enough

STATES = {
    DriverState.IDLE: RobotStatus.IDLE,
    DriverState.MOVING: RobotStatus.RUNNING,
    DriverState.HOLDING: RobotStatus.HOLDING,
    DriverState.STOPPED: RobotStatus.STOPPED,
}


@dataclass(frozen=True, slots=True)
class TwinSettings:
    """Parameters of the twin."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    world: str = described("train", "which objects, appearance and camera; sim_bridge/worlds.py names them")
    seed: int = described(0, "of the first layout", low=0)
    arm_config: str = described("config/arm_twin.yaml", "which arm it is, and what its driver calls joints and topics")
    joint_state_hz: float = described(100.0, "joint states per second", low=10, high=1000)
    camera_hz: float = described(10.0, "images per second, if the machine can render that many", low=0.1, high=200)
    image_size: int = described(472, "width and height of the images in pixels", low=16, high=4096)
    jpeg_quality: int = described(95, "of the images", low=1, high=100)
    real_time_factor: float = described(1.0, "speed of the twin relative to real time", low=0.1, high=20)
    niceness: int = described(
        0, "of all but the camera; below 0, if permitted, a busy machine delays stops less", low=-20, high=19
    )
    command_timeout_s: float = described(
        0.5, "the arm holds after this long without commands and heartbeats", low=0.05, high=60
    )
    publish_clock: bool = described(
        False, "publish the simulated time on /clock and follow it; for nodes with use_sim_time, never for guarded ones"
    )
    keys: str = described("", "folder with the people whose signed releases lift a stop; empty: nobody's do")


class TwinNode(OpcNode[TwinSettings]):
    """A simulated arm over a bin, with gripper and camera, behind the topics of its driver."""

    NAME = "twin"
    SETTINGS = TwinSettings

    def setup(self, settings: TwinSettings) -> None:
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        if not set_niceness(settings.niceness):
            self.get_logger().info(f"niceness {settings.niceness} is not allowed here; a busy machine may delay a stop")
        self._arm = load_arm(settings.arm_config, self._robot).with_full_names()
        spec = dataclasses.replace(find_world(settings.world), arm=self._arm)
        self._camera = CameraProcess(spec, image_size=settings.image_size, quality=settings.jpeg_quality)
        self.held.callback(self._camera.close)
        self._world = World(spec, image_size=settings.image_size)
        self.held.callback(self._world.close)
        self._switch = StopSwitch(self._robot)
        self._driver = TwinDriver(
            self._world, self._switch, command_timeout_s=settings.command_timeout_s, now=time.monotonic
        )
        self._reporter = SafetyReporter(self, self._robot)
        self.held.callback(self._reporter.close)
        self._clamped = self._refused = 0
        self._shown: tuple[DriverState, str] | None = None
        self._lay_out(settings.seed)
        self._sim_clock = SimClock(self, time.time_ns()) if settings.publish_clock else None
        if self._sim_clock is not None:
            self.held.callback(self._sim_clock.close)
        self._offer_topics()

    def start(self) -> None:
        self._ticked_s = self._shown_s = time.monotonic()
        self._status_s = 0.0
        # Created first, because callbacks that are due at the same time run in this order: stop or release, then
        # commands.
        self._stop = StopChannel(self, self._switch, self._reporter, self._driver.hold, self._settings.keys)
        # Commands are only accepted while physics runs.
        self._inputs = TwinInputs(self, self._driver, self._arm, self._refuse)
        self._heartbeats = self.create_subscription(Header, "heartbeat", self._on_heartbeat, 10)
        self._service = create_service(self, LayOutBin, "lay_out", self._on_lay_out)
        self._timer = create_steady_timer(self, 1.0 / self._settings.joint_state_hz, self._on_timer)

    def pause(self) -> None:
        self._driver.hold()
        self.destroy_timer(self._timer)
        self.destroy_service(self._service)
        self._stop.close()
        self._inputs.close()
        self.destroy_subscription(self._heartbeats)

    def _offer_topics(self) -> None:
        self._joint_states = self._publisher(JointState, self._arm.joint_states, 10)
        self._gripper_states = self._publisher(JointState, self._arm.gripper.state, 10)
        self._images = self._publisher(CompressedImage, self._arm.camera.topic, topics.images())
        self._camera_infos = self._publisher(CameraInfo, "camera/camera_info", topics.images())
        self._statuses = self._publisher(RobotStatus, "~/status", topics.LATEST)
        spec = self._world.spec
        camera = np.linalg.inv(self._world.camera.camera_from_base)
        shown = show_over_tray(compose_arm_urdf(spec.arm, spec.gripper))
        self._frames = RobotFrames(self, self._robot, shown, camera)
        self.held.callback(self._frames.close)
        self._framed_s = 0.0

    def _publisher(self, kind: type, topic: str, qos: QoSProfile | int) -> Publisher:
        publisher = self.create_publisher(kind, topic, qos)
        self.held.callback(self.destroy_publisher, publisher)
        return publisher

    def _refuse(self, line: str) -> None:
        self._refused += 1
        self._reporter.report(SafetyEvent.REFUSED, line)

    def _on_heartbeat(self, msg: Header) -> None:
        if convert.stamp_to_ns(msg.stamp):
            self._driver.beat()
        else:
            self._driver.say_goodbye()

    def _on_lay_out(self, request: LayOutBin.Request, response: LayOutBin.Response) -> LayOutBin.Response:
        try:
            self._lay_out(request.seed)
            response.success, response.message = True, f"laid out from seed {request.seed}"
        except OpcError as error:
            response.success, response.message = False, str(error)
        self._ticked_s = time.monotonic()
        return response

    def _lay_out(self, seed: int) -> None:
        self._driver.lay_out(seed)
        self._camera.lay_out(seed)

    def _on_timer(self) -> None:
        now_s = time.monotonic()
        simulated_s = min(now_s - self._ticked_s, LONGEST_TICK_S) * self._settings.real_time_factor
        self._driver.advance(simulated_s)
        self._ticked_s = now_s
        self._inputs.look()
        if not self._tell_time(simulated_s):
            return
        self._publish_measurements()
        self._publish_images(now_s)
        self._see_to_safety(now_s)

    def _tell_time(self, simulated_s: float) -> bool:
        """Whether measurements can have a timestamp yet: this node receives its own clock like everybody else."""
        if self._sim_clock is None:
            return True
        try:
            self._sim_clock.advance(simulated_s)
        except OpcError as error:
            self._reporter.report(SafetyEvent.FAULT, str(error))
            self.finish(1)
            return False
        return self.now_ns() > 0

    def _publish_measurements(self) -> None:
        stamp_ns = self.now_ns()
        positions, velocities = self._world.joint_positions_rad(), self._world.joint_velocities_rad_s()
        names = self._arm.joint_names
        self._joint_states.publish(reading_to_msg(names, positions.tolist(), velocities.tolist(), stamp_ns))
        gripper = self._arm.gripper
        aperture = self._world.tool_state().aperture_m
        if self._ticked_s - self._framed_s >= FRAMES_S:
            self._framed_s = self._ticked_s
            values = [*positions.tolist(), aperture / 2, aperture / 2]
            self._frames.publish(dict(zip(self._frames.moving_joints, values, strict=True)), stamp_ns)
        opening = aperture / gripper.metres_per_unit
        self._gripper_states.publish(reading_to_msg([gripper.joint], [opening], [], stamp_ns))

    def _publish_images(self, now_s: float) -> None:
        try:
            if (frame := self._camera.take()) is not None:
                frame = dataclasses.replace(frame, frame_id=f"{self._robot}/{convert.CAMERA_FRAME}")
                self._images.publish(convert.frame_to_msg(frame))
                self._camera_infos.publish(camera_info(self._world.camera, frame.stamp_ns, frame.frame_id))
            is_due = now_s - self._shown_s >= 1.0 / self._settings.camera_hz
            if is_due and self._camera.ask(self._world.pose(), self.now_ns()):
                self._shown_s = now_s
        except OpcError as error:
            self._reporter.report(SafetyEvent.FAULT, str(error))
            self.finish(1)

    def _see_to_safety(self, now_s: float) -> None:
        if line := self._driver.look_after_commander():
            self._reporter.report(SafetyEvent.WATCHDOG, line)
        for line in self._driver.take_clamped():
            self._clamped += 1
            self._reporter.report(SafetyEvent.CLAMPED, line)
        shown = (self._driver.state, self._driver.reason)
        if shown != self._shown or now_s - self._status_s >= STATUS_S:
            self._shown, self._status_s = shown, now_s
            self._statuses.publish(
                RobotStatus(
                    header=convert.header(self.now_ns()),
                    robot=self._robot,
                    state=STATES[shown[0]],
                    reason=shown[1],
                    commands_clamped=self._clamped,
                    commands_refused=self._refused,
                )
            )


def camera_info(camera: CameraModel, stamp_ns: int, frame_id: str = convert.CAMERA_FRAME) -> CameraInfo:
    """The calibration as a ROS message."""
    projection = np.hstack([camera.intrinsics, np.zeros((3, 1))])
    fields: dict[str, Any] = {
        "header": convert.header(stamp_ns, frame_id),
        "width": camera.size,
        "height": camera.size,
        "distortion_model": "plumb_bob",
        "d": [*camera.distortion, 0.0, 0.0, 0.0],
        "k": camera.intrinsics.ravel().tolist(),
        "r": np.eye(3).ravel().tolist(),
        "p": projection.ravel().tolist(),
    }
    return CameraInfo(**fields)


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(TwinNode, argv)


if __name__ == "__main__":
    sys.exit(main())
