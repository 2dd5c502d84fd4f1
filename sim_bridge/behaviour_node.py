"""A behaviour policy that drives the twin's arm through its driver topics, for recorders to record."""

from __future__ import annotations

import dataclasses
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from opc_interfaces.msg import RobotStatus

from opc_ros.bringup.lab import load_arm
from opc_ros.config import described
from opc_ros.errors import OpcError
from opc_ros.grasp import GraspAction, Observation
from opc_ros.playing import play_episode
from opc_ros.recording.episode_id import make_episode_id
from opc_ros.ros import convert, topics
from opc_ros.ros.episode_topics import BehaviourEpisodes, EpisodeTopics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.recorder_watch import RecorderWatch
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
    world: str = described("train", "the world the twin of this robot plays in")
    policy: str = described("scripted", "which behaviour policy; sim_bridge/behaviour.py names them")
    seed: int = described(0, "of the first episode; the next ones count on", low=0)
    episodes: int = described(0, "how many to play before the program ends; 0: until stopped", low=0)
    attempts: int = described(3, "after so many broken episodes in a row the program ends", low=1)
    recorder_timeout_s: float = described(30.0, "how long to wait for a recorder before an episode", low=0.1)


class _Onlooker:
    """A behaviour policy with a world of its own, laid out as the twin's is from the same seed."""

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


class BehaviourNode(OpcNode[BehaviourSettings]):
    """Plays episodes one after the other.

    The policy aims at what it sees in a world of its own, laid out from the seed the twin was given: it knows where the
    objects lay at first, not where a push has moved them.
    """

    NAME = "behaviour"
    SETTINGS = BehaviourSettings

    def setup(self, settings: BehaviourSettings) -> None:
        self._settings = settings
        robot = robot_name(self, settings.robot)
        arm = load_arm(settings.arm_config, robot)
        spec = dataclasses.replace(find_world(settings.world), arm=arm)
        self._robot = robot
        self._world = World(spec, image_size=16)
        self.held.callback(self._world.close)
        self._policy = _Onlooker(BehaviourPolicy(find_behaviour(settings.policy), self._world), self._world)
        self._arm = RosArm(arm)
        self.held.callback(self._arm.close)
        self._recorder = RecorderWatch(self)
        self.held.callback(self._recorder.close)
        told = EpisodeTopics(self, robot, self.now_ns, has_camera=True)
        self.held.callback(told.close)
        self._listener = BehaviourEpisodes(
            told,
            lambda: make_episode_id(robot, self.now_ns()),
            behaviour_policy=self._policy.name,
            object_set=spec.object_set,
        )
        self._stopping = threading.Event()
        self._runner_state = RobotStatus.IDLE
        runner = self.create_subscription(RobotStatus, "robot/status", self._on_runner, topics.LATEST)
        self.held.callback(self.destroy_subscription, runner)
        self._status = self.create_publisher(RobotStatus, topics.BEHAVIOUR_STATUS, topics.LATEST)
        self.held.callback(self.destroy_publisher, self._status)

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def pause(self) -> None:
        """Let the episode under way end at its next step."""
        self._stopping.set()
        self._thread.join(timeout=30.0)

    def _work(self) -> None:
        """A mistake in here must end the program, not only its thread."""
        try:
            self._play_all()
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
            self.finish(1)

    def _play_all(self) -> None:
        """Until all are played or it is stopped; an arm that fails again and again ends the program."""
        seed = self._settings.seed
        played = successes = failed_in_a_row = 0
        while not self._stopping.is_set() and (played < self._settings.episodes or not self._settings.episodes):
            self._let_candidate_finish()
            self._tell(RobotStatus.RUNNING)
            reason = self._recorder.wait(self._settings.recorder_timeout_s, self._why_to_stop)
            try:
                if reason is not None:
                    raise OpcError(reason)
                successes += play_episode(self._arm, self._policy, seed, self._listener, why_to_stop=self._why_to_stop)
                played += 1
                failed_in_a_row = 0
                self.get_logger().info(f"{self._policy.name}: {successes} of {played} succeeded")
            except OpcError as error:
                if self._stopping.is_set():
                    return
                self.get_logger().error(str(error))
                failed_in_a_row += 1
                if failed_in_a_row == self._settings.attempts:
                    self.finish(1)
                    return
            seed += 1
        self.finish()

    def _why_to_stop(self) -> str | None:
        if self._stopping.is_set():
            return "the behaviour policy was stopped"
        return "a candidate with a permit drives this arm" if self._is_candidate_running() else None

    def _let_candidate_finish(self) -> None:
        """Who has a permit goes first; the runner takes no new one while a behaviour policy is there."""
        if self._is_candidate_running():
            self._tell(RobotStatus.HOLDING)
        while self._is_candidate_running() and not self._stopping.wait(0.1):
            pass

    def _is_candidate_running(self) -> bool:
        return self._runner_state == RobotStatus.RUNNING

    def _on_runner(self, msg: RobotStatus) -> None:
        self._runner_state = msg.state

    def _tell(self, state: int) -> None:
        self._status.publish(RobotStatus(header=convert.header(self.now_ns()), robot=self._robot, state=state))


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(BehaviourNode, argv)


if __name__ == "__main__":
    sys.exit(main())
