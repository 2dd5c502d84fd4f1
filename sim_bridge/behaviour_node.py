"""A behaviour policy that drives the twin's arm through its driver topics, for recorders to record."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_ros.bringup.lab import load_arm
from opc_ros.config import described
from opc_ros.deployment.arm_lease import LeaseRequest, sign_drive
from opc_ros.deployment.signing import find_signer, load_machine_key
from opc_ros.grasp import GraspAction, Observation
from opc_ros.recording.episode_id import make_episode_id
from opc_ros.ros.arm_link import WayMaker
from opc_ros.ros.arm_way import DirectWay
from opc_ros.ros.behaviour_runner import BehaviourRunner, Performance
from opc_ros.ros.episode_topics import BehaviourEpisodes, EpisodeTopics
from opc_ros.ros.gateway_way import make_gateway_way
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.ros_arm import RosArm
from opc_ros.ros.run import run_node
from sim_bridge.behaviour import BehaviourPolicy, find_behaviour
from sim_bridge.world import World
from sim_bridge.worlds import find_world


@dataclass(frozen=True, slots=True)
class BehaviourSettings:
    """Parameters of the behaviour node."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    arm_config: str = described("config/arm_twin.yaml", "arm or lab file that says how the arm is reached")
    gateway: str = described("", "folder of the arm gateway's socket; empty: straight to a twin in this ROS domain")
    keys: str = described(
        "", "folder with the people who may release a stop and, with a gateway, an operator's key for every episode"
    )
    world: str = described("train", "the world the twin of this robot plays in")
    policy: str = described("scripted", "which behaviour policy; sim_bridge/behaviour.py names them")
    seed: int = described(0, "seed of the first episode; the next ones count up from it", low=0)
    episodes: int = described(0, "how many to play before the program ends; 0: until stopped", low=0)
    attempts: int = described(3, "this many broken episodes in a row end the program", low=1)
    recorder_timeout_s: float = described(30.0, "how long to wait for a recorder before an episode", low=0.1)


class _Onlooker:
    """A behaviour policy with a world of its own, laid out like the twin's from the same seed."""

    def __init__(self, policy: BehaviourPolicy, world: World) -> None:
        self._policy = policy
        self._world = world

    @property
    def name(self) -> str:
        return self._policy.name

    def begin(self, seed: int) -> None:
        self._world.lay_out(seed)
        self._policy.begin(seed)

    def choose(self, observation: Observation) -> GraspAction:
        return self._policy.choose(observation)


class BehaviourNode(BehaviourRunner[BehaviourSettings]):
    """Plays episodes of a policy that knows where the objects are.

    The policy aims at the objects in a world of its own, laid out from the same seed as the twin: it knows where they
    lay at the start, not where a push has moved them since.
    """

    NAME = "behaviour"
    SETTINGS = BehaviourSettings

    def perform(self, settings: BehaviourSettings) -> Performance:
        robot = robot_name(self, settings.robot)
        settings_of_arm = load_arm(settings.arm_config, robot)
        spec = dataclasses.replace(find_world(settings.world), arm=settings_of_arm)
        world = World(spec, image_size=16)
        self.held.callback(world.close)
        player = _Onlooker(BehaviourPolicy(find_behaviour(settings.policy), world), world)
        way = choose_way(settings.gateway, settings.keys, robot, settings.policy)
        # Behind a gateway the arm's guard uses the machine's clock, so its commander must too.
        is_simulated = not settings.gateway and bool(self.get_parameter("use_sim_time").value)
        keys = Path(settings.keys) if settings.keys else None
        arm = RosArm(settings_of_arm, make_way=way, keys=keys, use_sim_time=is_simulated)
        self.held.callback(arm.close)
        told = EpisodeTopics(self, robot, self.now_ns, has_camera=True)
        self.held.callback(told.close)
        listener = BehaviourEpisodes(
            told,
            lambda: make_episode_id(robot, self.now_ns()),
            behaviour_policy=player.name,
            object_set=spec.object_set,
        )
        return Performance(
            robot=robot,
            arm=arm,
            player=player,
            listener=listener,
            seed=settings.seed,
            episodes=settings.episodes,
            attempts=settings.attempts,
            recorder_timeout_s=settings.recorder_timeout_s,
        )


def choose_way(gateway: str, keys: str, robot: str, policy: str) -> WayMaker:
    """Straight to the twin, or through its gateway with a permission that the person at this terminal signs."""
    if not gateway:
        return DirectWay
    signs = find_signer(Path(keys))

    def sign() -> LeaseRequest:
        reason = f"behaviour policy {policy} on a twin"
        return LeaseRequest(robot, "drive", sign_drive(signs.person, signs.signer, robot, reason, time.time_ns()))

    robots_key = load_machine_key(Path(gateway).parent / "keys", robot)
    return make_gateway_way(gateway, sign, robots_key)


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(BehaviourNode, argv)


if __name__ == "__main__":
    sys.exit(main())
