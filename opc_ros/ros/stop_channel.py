"""One arm's emergency stop on ROS: a latched topic, a service, and events that say who did what."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from opc_interfaces.msg import EpisodeEvent, SafetyEvent
from rclpy.node import Node
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from opc_ros.arms.safety import StopSwitch
from opc_ros.arms.stop_memory import StopMemory
from opc_ros.deployment.statement import Statement
from opc_ros.deployment.stop_release import HOW_TO_RELEASE, StopReleases
from opc_ros.ros import convert, topics
from opc_ros.ros.services import create_service
from opc_ros.ros.stop_listener import STOP, StopListener

KINDS = {
    SafetyEvent.CLAMPED: "clamped",
    SafetyEvent.REFUSED: "refused",
    SafetyEvent.WATCHDOG: "watchdog",
    SafetyEvent.STOP: "stop",
    SafetyEvent.RELEASED: "released",
    SafetyEvent.FAULT: "fault",
}

BROKEN_OFF_S = 1.0  # a stop heard this soon after an episode broke off is what ended it


class SafetyReporter:
    """Publishes what a limit, a watchdog or a person did in which episode, on `safety/event` and in the log."""

    def __init__(self, node: Node, robot: str, episode: Callable[[], str] | None = None) -> None:
        """`episode` returns the current episode's id, or nothing; by default `hear_episode` keeps track of it."""
        self._node = node
        self._robot = robot
        self._heard_episode = ""
        self._broken_off = ("", 0.0)  # the last one, and when that was heard
        self._episode = episode or (lambda: self._heard_episode)
        self._events = node.create_publisher(SafetyEvent, "safety/event", topics.RECORDED)

    @property
    def listeners(self) -> int:
        """How many subscribers there are."""
        return int(self._events.get_subscription_count())

    def close(self) -> None:
        self._node.destroy_publisher(self._events)

    def report(self, kind: int, detail: str) -> None:
        stamp_ns = int(self._node.get_clock().now().nanoseconds)
        self._events.publish(
            SafetyEvent(
                header=convert.header(stamp_ns),
                robot=self._robot,
                episode_id=self._episode() or (self._ended_by_stop() if kind == SafetyEvent.STOP else ""),
                kind=kind,
                detail=detail,
            )
        )
        self._node.get_logger().warning(f"{KINDS[kind]}: {detail}")

    def hear_episode(self, msg: EpisodeEvent) -> None:
        is_broken_off = msg.kind == EpisodeEvent.ABORT and msg.episode_id == self._heard_episode
        self._broken_off = (msg.episode_id if is_broken_off else "", time.monotonic())
        self._heard_episode = msg.episode_id if msg.kind == EpisodeEvent.BEGIN else ""

    def _ended_by_stop(self) -> str:
        """The episode that a stop ended, even if the news of its end overtook the stop, as it may."""
        episode_id, heard_s = self._broken_off
        return self._heard_episode or (episode_id if time.monotonic() - heard_s < BROKEN_OFF_S else "")


class StopChannel:
    """Presses one switch from the topic `stop`, from the service `~/stop` and from code, and publishes the result.

    A stop needs no signature. Only a release on the topic `release` that an operator signed lifts it.
    """

    def __init__(
        self,
        node: Node,
        switch: StopSwitch,
        reporter: SafetyReporter,
        on_press: Callable[[], None],
        keys: str | Path | None,
        memory: StopMemory | None = None,
    ) -> None:
        """`on_press` holds the arm; it is called before anything is published.

        `keys` is a folder with the people whose releases count; without it no release counts. With a `memory` the stop
        is kept on disk and outlives this node.
        """
        self._node = node
        self._switch = switch
        self._reporter = reporter
        self._on_press = on_press
        self._memory = memory
        self._said: deque[tuple[int, int]] = deque(maxlen=32)  # start and end of this channel's own publications
        self._publisher = node.create_publisher(Bool, STOP, topics.LATEST)
        self._listener = StopListener(
            node,
            switch,
            StopReleases(Path(keys) if keys else None, switch.arm),
            on_press=self._on_told,
            on_lift=self._on_lift,
            on_refusal=lambda reason: reporter.report(SafetyEvent.REFUSED, f"release refused: {reason}"),
            is_own=lambda stamp_ns: any(start <= stamp_ns <= end for start, end in self._said),
        )
        self._service = create_service(node, SetBool, "~/stop", self._on_service)
        # Subscribed after the stop, as callbacks run in this order: a stop must still find the episode it ends.
        self._episodes = node.create_subscription(EpisodeEvent, "episode/event", reporter.hear_episode, topics.RECORDED)
        kept = memory.recall() if memory is not None else None
        if kept is not None and switch.press(*kept):
            self._say_stopped()

    def close(self) -> None:
        self._node.destroy_service(self._service)
        self._node.destroy_subscription(self._episodes)
        self._listener.close()
        self._node.destroy_publisher(self._publisher)

    def press(self, reason: str) -> None:
        """Stop this arm and tell everybody."""
        stamp_ns = time.time_ns()
        if self._switch.press(reason, stamp_ns):
            self._on_press()
            self._remember(stamp_ns)
            self._reporter.report(SafetyEvent.STOP, reason)
        self._say_stopped()

    def _on_told(self, stamp_ns: int) -> None:
        self._on_press()
        self._remember(stamp_ns)
        self._say_stopped()  # in case whoever pressed is gone when a node joins later
        self._reporter.report(SafetyEvent.STOP, "stopped by the topic stop")

    def _on_lift(self, statement: Statement) -> None:
        self._remember(0)
        # A latched topic delivers its last message to late joiners, so the stop is removed by replacing its publisher.
        self._node.destroy_publisher(self._publisher)
        self._publisher = self._node.create_publisher(Bool, STOP, topics.LATEST)
        self._reporter.report(SafetyEvent.RELEASED, f"{statement.person} signed the release")

    def _on_service(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if request.data:
            self.press("stopped by the service stop")
            response.success, response.message = True, "stopped"
        else:
            response.message = f"a stop is lifted by a signed release: {HOW_TO_RELEASE.format(robot=self._switch.arm)}"
            self._listener.refuse(response.message)
        return response

    def _remember(self, stamp_ns: int) -> None:
        """Save the stop that is in force, or that there is none."""
        if self._memory is None:
            return
        try:
            if self._switch.reason is None:
                self._memory.forget()
            else:
                self._memory.keep(self._switch.reason, stamp_ns)
        except OSError as error:  # the arm is held anyway, but a restart would forget the stop
            self._node.get_logger().error(f"the stop cannot be saved to disk: {error}")

    def _say_stopped(self) -> None:
        start_ns = time.time_ns()
        # The end is open until the call returns, because the message may come back before that.
        self._said.append((start_ns, start_ns + 1_000_000_000))
        self._publisher.publish(Bool(data=True))
        self._said[-1] = (start_ns, time.time_ns())
        self._listener.tell_id()
