"""The only way to an arm: a process with one foot in the lab's ROS domain and one in the arm's own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from diagnostic_msgs.msg import DiagnosticArray
from opc_interfaces.msg import EpisodeEvent, RobotStatus, SafetyEvent
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_msgs.msg import Float64, String
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.domain import read_domain
from opc_ros.bringup.lab import load_arm
from opc_ros.bringup.lab_names import in_lab
from opc_ros.config import described
from opc_ros.deployment.arm_lease import LeaseDesk
from opc_ros.deployment.permit import parse_rungs
from opc_ros.deployment.signing import load_machine_key
from opc_ros.errors import ConfigError, OpcError
from opc_ros.ros import topics
from opc_ros.ros.arm_side import ArmSide
from opc_ros.ros.lease_server import LeaseServer
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.only_one import only_one
from opc_ros.ros.precedence import Precedence
from opc_ros.ros.relay import Carried, Relay, carry
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_bridge import StopBridge
from opc_ros.ros.stop_channel import SafetyReporter

LOOK_S = 0.2
TELL_S = 1.0  # the same line is reported at most once in this time
SOCKET_FOLDER = "gateway"  # below the robot's state folder


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Parameters of the gateway."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    arm_config: str = described("config/arm.yaml", "arm or lab file that says how the arm is reached")
    arm_domain: int = described(1, "ROS domain of the arm's driver, guard and this gateway", low=0, high=232)
    arm_discovery: Literal["localhost", "subnet"] = described(
        "localhost", "how far the arm's domain reaches: this machine, or its network if the driver runs elsewhere"
    )
    rungs: str = described("reduced,full", "rungs this robot may serve: twin, reduced and full, comma-separated")
    reduced_speed: float = described(0.3, "fraction of the arm's speeds on rung reduced", low=0.01, high=1.0)
    keys: str = described("keys", "folder with the public keys this robot trusts")
    state: str = described("runner", "folder of the robot's audit log; the socket is in its folder gateway")
    silence_s: float = described(0.3, "a commander that is silent for this long loses its lease", low=0.05, high=60)
    stale_s: float = described(0.2, "a command older than this is dropped", low=0.01, high=60)
    overtime_s: float = described(120.0, "how long an episode may outlast its permit", low=0.0, high=3600)


class ArmGatewayNode(OpcNode[GatewaySettings]):
    """Forwards commands under leases that it has checked itself, relays measurements out and stops in."""

    NAME = "arm_gateway"
    SETTINGS = GatewaySettings
    IS_GUARDED = True
    PRECEDENCE = Precedence.HIGH

    def setup(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        refuse_same_domain(settings.arm_domain)
        self._arm = load_arm(settings.arm_config, self._robot).with_full_names()
        keys, state = Path(settings.keys), Path(settings.state)
        self.held.enter_context(only_one(self.NAME, self._robot, state))
        self._desk = LeaseDesk(
            self._robot,
            parse_rungs(settings.rungs),
            keys,
            state,
            load_machine_key(keys, self._robot),
            reduced_speed=settings.reduced_speed,
            overtime_s=settings.overtime_s,
        )
        self.held.callback(self._desk.close)
        self._reporter = SafetyReporter(self, self._robot)
        self.held.callback(self._reporter.close)
        self._told: dict[str, float] = {}
        self._rivals = ""
        self._side = ArmSide(
            self._arm,
            settings.arm_domain,
            settings.arm_discovery,
            why_not_now=self._find_rivals,
            complain=self._complain,
        )

    def start(self) -> None:
        arm_node = self._side.node
        self._relay = Relay(arm_node, self, carried_out(self._arm))
        StopBridge(self, arm_node)
        carry(self, arm_node, Carried(EpisodeEvent, "episode/event", topics.RECORDED, topics.RECORDED))
        self.create_subscription(EpisodeEvent, "episode/event", self._reporter.hear_episode, topics.RECORDED)
        self.create_subscription(String, in_lab("/deployment/revocations"), self._on_revocations, topics.LATEST)
        self._watch_for_strangers()
        create_steady_timer(arm_node, LOOK_S, self._relay.look)
        create_steady_timer(self, LOOK_S, self._look)
        self._side.spin()
        folder = Path(self._settings.state) / SOCKET_FOLDER
        self._server = LeaseServer(
            folder,
            self._desk,
            self._side,
            silence_s=self._settings.silence_s,
            stale_s=self._settings.stale_s,
            tell=self._tell_refusal,
        )
        self.get_logger().info(
            f"arm {self._robot}: its driver is in ROS domain {self._settings.arm_domain} of the "
            f"{'machine' if self._settings.arm_discovery == 'localhost' else 'network'}"
        )

    def pause(self) -> None:
        self._server.close()
        self._side.close()

    def note_refused(self, what: str) -> None:
        super().note_refused(what)
        self._desk.note_refusal(what)

    def _watch_for_strangers(self) -> None:
        """Subscribe to command topics that move nothing here, to report and log whoever publishes on them."""
        commands: list[tuple[Any, str]] = [(JointTrajectory, f"{self._arm.controller}/joint_trajectory")]
        if self._arm.gripper.driver == "float64":
            commands.append((Float64, self._arm.gripper.command))
        elif self._arm.gripper.driver == "trajectory":
            commands.append((JointTrajectory, self._arm.gripper.command))
        for kind, topic in commands:
            line = f"a command on {self.resolve_topic_name(topic)}: no topic of the lab's domain moves this arm"
            self.create_subscription(kind, topic, lambda _, line=line: self._refuse_stranger(line), 10, raw=True)

    def _refuse_stranger(self, line: str) -> None:
        if self._tell(line, SafetyEvent.REFUSED):
            self._desk.note_refusal(line)

    def _on_revocations(self, msg: String) -> None:
        try:
            self._desk.accept_revocations(msg.data)
        except OpcError as error:
            self._refuse_stranger(f"revocations: {error}")

    def _look(self) -> None:
        rivals = self._find_rivals()
        if rivals and rivals != self._rivals:
            self._desk.note_refusal(rivals)
            self._tell(rivals, SafetyEvent.FAULT)
        self._rivals = rivals

    def _find_rivals(self) -> str:
        """Find other publishers of what only this gateway may publish; if there are any, nothing moves."""
        arm = self._arm
        for topic in dict.fromkeys((arm.joint_states, arm.gripper.state, arm.guard)):
            if topic and (count := self.count_publishers(topic)) > 1:
                return f"{count} publishers of {self.resolve_topic_name(topic)} in the lab's domain, expected one"
        if (count := self._side.count_rivals()) > 1:
            return f"{count} publishers of {arm.joint_states} in the arm's domain, expected one"
        return ""

    def _complain(self, line: str) -> None:
        self._tell(line, SafetyEvent.FAULT)

    def _tell_refusal(self, line: str) -> None:
        self._tell(line, SafetyEvent.REFUSED)

    def _tell(self, line: str, kind: int) -> bool:
        """Report on `safety/event`, the same line at most once a second; returns whether it was reported."""
        now_s = time.monotonic()
        if now_s - self._told.get(line, -TELL_S) < TELL_S:
            return False
        if len(self._told) > 100:
            self._told.clear()
        self._told[line] = now_s
        self._reporter.report(kind, line)
        return True


def refuse_same_domain(arm_domain: int) -> None:
    if arm_domain == (lab := read_domain(os.environ)):
        raise ConfigError(
            f"arm_domain is {arm_domain}, which is the lab's ROS_DOMAIN_ID: give the arm a domain other than {lab}"
        )


def carried_out(arm: ArmSettings) -> tuple[Carried, ...]:
    """What the lab may see of an arm: measurements, the guard's status and images, but never commands."""
    latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    images = topics.images(is_reliable=arm.camera.is_reliable)
    out = [
        Carried(JointState, arm.joint_states, qos_profile_sensor_data, 10),
        Carried(SafetyEvent, "safety/event", topics.RECORDED, topics.RECORDED),
        Carried(RobotStatus, "twin/status", topics.LATEST, topics.LATEST),
        Carried(RobotStatus, arm.guard or "arm_guard/status", topics.LATEST, topics.LATEST),
        Carried(CompressedImage if arm.camera.is_compressed else Image, arm.camera.topic, images, images),
        Carried(CameraInfo, "camera/camera_info", images, images),
        Carried(String, "robot_description", topics.LATEST, topics.LATEST),
        Carried(DiagnosticArray, in_lab("/diagnostics"), topics.RECORDED, topics.RECORDED),
    ]
    if arm.gripper.state != arm.joint_states:
        out.append(Carried(JointState, arm.gripper.state, qos_profile_sensor_data, 10))
    try:
        from tf2_msgs.msg import TFMessage
    except ImportError:
        return tuple(out)
    return (
        *out,
        Carried(TFMessage, in_lab("/tf"), 100, 100),
        Carried(TFMessage, in_lab("/tf_static"), latched, latched),
    )


def main(argv: Sequence[str] | None = None) -> int:
    # How often threads yield the interpreter; a command must not wait behind a thread that relays an image.
    sys.setswitchinterval(0.0005)
    return run_node(ArmGatewayNode, argv)


if __name__ == "__main__":
    sys.exit(main())
