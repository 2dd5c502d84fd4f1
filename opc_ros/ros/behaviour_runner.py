"""A node that plays a behaviour policy's episodes one after the other, while no candidate drives the arm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from opc_interfaces.msg import RobotStatus

from opc_ros.arms.arm import Arm
from opc_ros.errors import OpcError
from opc_ros.playing import Player, play_episode
from opc_ros.ros import convert, topics
from opc_ros.ros.episode_topics import BehaviourEpisodes
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.recorder_watch import RecorderWatch

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Performance:
    """Who plays what on which arm, and how often."""

    robot: str
    arm: Arm
    player: Player
    listener: BehaviourEpisodes
    seed: int  # of the first episode; counts up from there
    episodes: int  # 0: until stopped
    attempts: int  # this many broken episodes in a row end the program
    recorder_timeout_s: float
    # Called before each episode; an exception ends the program normally, because the permit is spent or has expired.
    ask_leave: Callable[[], None] = lambda: None


class BehaviourRunner(OpcNode[S]):
    """Base class; a subclass says in `perform` what to play."""

    def perform(self, settings: S) -> Performance:
        """Open the arm and create the player."""
        raise NotImplementedError

    def setup(self, settings: S) -> None:
        self._stopping = threading.Event()
        self._runner_state = RobotStatus.IDLE
        self._work = self.perform(settings)
        self._recorder = RecorderWatch(self)
        self.held.callback(self._recorder.close)
        runner = self.create_subscription(RobotStatus, "robot/status", self._on_runner, topics.LATEST)
        self.held.callback(self.destroy_subscription, runner)
        self._status = self.create_publisher(RobotStatus, topics.BEHAVIOUR_STATUS, topics.LATEST)
        self.held.callback(self.destroy_publisher, self._status)

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=partial(self.end_on_error, self._play_all))
        self._thread.start()

    def pause(self) -> None:
        """Let the current episode end at its next step."""
        self._stopping.set()
        self._thread.join(timeout=30.0)

    def why_to_stop(self) -> str | None:
        """Why the current episode must not continue, or None."""
        if self._stopping.is_set():
            return "the behaviour policy was stopped"
        return "a candidate with a permit drives this arm" if self._is_candidate_running() else None

    def _play_all(self) -> None:
        """Play until done or stopped; an arm that fails too often in a row ends the program."""
        work, seed = self._work, self._work.seed
        played = successes = failed_in_a_row = 0
        while not self._stopping.is_set() and (played < work.episodes or not work.episodes):
            self._let_candidate_finish()
            self._tell(RobotStatus.RUNNING)
            reason = self._recorder.wait(work.recorder_timeout_s, self.why_to_stop)
            if reason is None and not self._has_leave():
                return
            try:
                if reason is not None:
                    raise OpcError(reason)
                successes += play_episode(work.arm, work.player, seed, work.listener, why_to_stop=self.why_to_stop)
                played += 1
                failed_in_a_row = 0
                self.get_logger().info(f"{work.player.name}: {successes} of {played} succeeded")
            except OpcError as error:
                if self._stopping.is_set():
                    return
                self.get_logger().error(str(error))
                failed_in_a_row += 1
                if failed_in_a_row == work.attempts:
                    self.finish(1)
                    return
            seed += 1
        self._recorder.wait_until_kept(work.listener.last_id, work.recorder_timeout_s, self._stopping.is_set)
        self.finish()

    def _has_leave(self) -> bool:
        try:
            self._work.ask_leave()
        except OpcError as error:
            self.get_logger().warning(str(error))
            self.finish()
            return False
        return True

    def _let_candidate_finish(self) -> None:
        """Wait for a candidate with a permit to finish; the runner takes no new one while a behaviour policy runs."""
        if self._is_candidate_running():
            self._tell(RobotStatus.HOLDING)
        while self._is_candidate_running() and not self._stopping.wait(0.1):
            pass

    def _is_candidate_running(self) -> bool:
        return bool(self._runner_state == RobotStatus.RUNNING)

    def _on_runner(self, msg: RobotStatus) -> None:
        self._runner_state = msg.state

    def _tell(self, state: int) -> None:
        self._status.publish(RobotStatus(header=convert.header(self.now_ns()), robot=self._work.robot, state=state))
