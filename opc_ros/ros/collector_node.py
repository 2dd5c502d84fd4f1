"""The collector: plays on an arm under a permit that a person signed, before there is anything to rank."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opc_ros.arms.arm import Arm
from opc_ros.arms.settings import ArmSettings
from opc_ros.behaviour.blind_grasps import BlindGrasps, BlindSettings
from opc_ros.behaviour.judging import JudgedArm
from opc_ros.behaviour.teleoperation import StickLayout, TeleoperationSettings
from opc_ros.bringup.lab import load_arm
from opc_ros.config import described
from opc_ros.deployment.arm_lease import LeaseRequest
from opc_ros.deployment.behaviour_permit import (
    FILE_NAME,
    BehaviourPermit,
    EpisodeBudget,
    open_behaviour_permit,
    read_signed,
)
from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.people import load_people
from opc_ros.deployment.signing import load_machine_key
from opc_ros.errors import ConfigError
from opc_ros.playing import Player
from opc_ros.recording.episode_id import make_episode_id
from opc_ros.ros.arm_connection import scale_speed
from opc_ros.ros.arm_link import WayMaker
from opc_ros.ros.arm_way import DirectWay
from opc_ros.ros.behaviour_runner import BehaviourRunner, Performance
from opc_ros.ros.episode_topics import BehaviourEpisodes, EpisodeTopics
from opc_ros.ros.gateway_way import make_gateway_way
from opc_ros.ros.players import ServicePlayer, connect_person
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.ros_arm import RosArm
from opc_ros.ros.run import run_node

SERVICE = "service:"
TELEOPERATION = "teleoperation"


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Parameters of the collector."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    arm_config: str = described("config/arm.yaml", "arm or lab file that says how the arm is reached")
    gateway: str = described(
        "", "folder of the arm gateway's socket; empty: straight to a driver in this ROS domain, for arms without one"
    )
    policy: str = described("blind_grasps", "blind_grasps, teleoperation, or service:NAME for one of your own")
    state: str = described("runner", "folder with behaviour.permit; also keeps the count of played episodes")
    keys: str = described("keys", "folder with people.yaml; permits must be signed by one of its operators")
    judge: Literal["images", "gripper", "person"] = described(
        "images", "who labels: gripper and images, with a person where they disagree; the gripper alone; a person"
    )
    object_set: str = described("", "what is in the bin, in your own words")
    seed: int = described(0, "seed of the first episode; the next ones count up from it", low=0)
    episodes: int = described(0, "how many to play before the program ends; 0: as many as the permit allows", low=0)
    attempts: int = described(3, "this many broken episodes in a row end the program", low=1)
    recorder_timeout_s: float = described(30.0, "how long to wait for a recorder before an episode", low=0.1)
    margin_m: float = described(0.04, "blind_grasps: margin to the sides of the workspace", low=0.0, high=0.5)
    depth_m: float = described(0.03, "blind_grasps: fingers close at most this far above its floor", low=0.0, high=0.5)
    joy_topic: str = described("joy", "teleoperation: sensor_msgs/Joy")
    twist_topic: str = described("twist", "teleoperation: geometry_msgs/TwistStamped of a 3D mouse, in the base frame")
    sticks: tuple[int, ...] = described((2, 1, 5, 4), "axes, from 1, for forward, left, up, turn; -2: inverted")
    buttons: tuple[int, ...] = described((0, 1, 3), "buttons, from 0, for close, open, done")
    stick_speed_m_s: float = described(0.12, "teleoperation: at full deflection", low=0.005, high=1.0)
    service_timeout_s: float = described(5.0, "service: how long its answer may take", low=0.05)

    def __post_init__(self) -> None:
        for name, got, expected in (("sticks", self.sticks, 4), ("buttons", self.buttons, 3)):
            if len(got) != expected:
                raise ValueError(f"{name} has {len(got)} numbers, expected {expected}")
        known = (BlindGrasps.name, TELEOPERATION)
        if self.policy not in known and not self.policy.startswith(SERVICE):
            raise ValueError(f"policy {self.policy!r}, expected {', '.join(known)} or {SERVICE}NAME")


class CollectorNode(BehaviourRunner[CollectorSettings]):
    """Plays the episodes that a person has permitted, at the permitted speed, and labels them where it can."""

    NAME = "collector"
    SETTINGS = CollectorSettings

    def perform(self, settings: CollectorSettings) -> Performance:
        robot = robot_name(self, settings.robot)
        self._keys, self._robot, self._policy = Path(settings.keys), robot, settings.policy
        self._state = Path(settings.state)
        permit = self._check_permit()
        budget = EpisodeBudget(self._state, permit)
        arm_settings = scale_speed(load_arm(settings.arm_config, robot), permit.speed)
        told = EpisodeTopics(self, robot, self.now_ns, has_camera=True)
        self.held.callback(told.close)
        player = self._make_player(settings, arm_settings, lambda: told.episode_id)
        driven = RosArm(
            arm_settings,
            episode=lambda: told.episode_id,
            make_way=self._choose_way(settings.gateway),
            keys=self._keys,
        )
        self.held.callback(driven.close)
        arm: Arm = JudgedArm(driven) if settings.judge == "images" else driven

        def judge(is_success: bool) -> bool | None:
            if isinstance(arm, JudgedArm):
                if arm.verdict is None:
                    self.get_logger().warning(f"a person has to label {told.episode_id}: {arm.finding}")
                return arm.verdict
            return is_success if settings.judge == "gripper" else None

        listener = BehaviourEpisodes(
            told,
            lambda: make_episode_id(robot, self.now_ns()),
            behaviour_policy=player.name,
            object_set=settings.object_set,
            permit_id=permit.permit_id,
            judge=judge,
        )

        def ask_leave() -> None:
            self._check_permit()
            budget.spend()

        self.get_logger().info(
            f"{permit.person} allows {budget.left} of {permit.episodes} episodes of {permit.policy} "
            f"at {permit.speed:.0%} of the arm's speed"
        )
        return Performance(
            robot=robot,
            arm=arm,
            player=player,
            listener=listener,
            seed=settings.seed + permit.episodes - budget.left,
            episodes=min(settings.episodes or budget.left, budget.left) or 1,
            attempts=settings.attempts,
            recorder_timeout_s=settings.recorder_timeout_s,
            ask_leave=ask_leave,
        )

    def _choose_way(self, gateway: str) -> WayMaker:
        if not gateway:
            return DirectWay

        def show_permit() -> LeaseRequest:
            envelope = to_text(read_signed(self._state / FILE_NAME))
            return LeaseRequest(self._robot, "behaviour", envelope, policy=self._policy)

        return make_gateway_way(gateway, show_permit, load_machine_key(self._keys, self._robot))

    def _check_permit(self) -> BehaviourPermit:
        """Read again each time, so that a withdrawn or replaced permit takes effect before the next episode."""
        people = load_people(self._keys)
        signed = read_signed(self._state / FILE_NAME)
        return open_behaviour_permit(signed, people, robot=self._robot, policy=self._policy, now_ns=self.now_ns())

    def _make_player(self, settings: CollectorSettings, arm: ArmSettings, episode_id: Callable[[], str]) -> Player:
        if settings.policy == BlindGrasps.name:
            blind = BlindSettings(margin_m=settings.margin_m, depth_m=settings.depth_m)
            return BlindGrasps(arm.workspace, arm.bounds, blind)
        if settings.policy == TELEOPERATION:
            forward, left, up, turn = settings.sticks
            close, opened, done = settings.buttons
            return connect_person(
                self,
                self.held,
                StickLayout(forward, left, up, turn, close, opened, done),
                TeleoperationSettings(speed_m_s=settings.stick_speed_m_s),
                self.why_to_stop,
                joy_topic=settings.joy_topic,
                twist_topic=settings.twist_topic,
            )
        name = settings.policy.removeprefix(SERVICE)
        if not name:
            raise ConfigError("policy service: names no service, expected service:NAME")
        player = ServicePlayer(
            self, name, self._robot, self.why_to_stop, timeout_s=settings.service_timeout_s, episode_id=episode_id
        )
        self.held.callback(player.close)
        return player


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(CollectorNode, argv)


if __name__ == "__main__":
    sys.exit(main())
