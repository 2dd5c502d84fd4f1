"""One arm's emergency stop on ROS: a latched topic, a service, and events that say who did what."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from opc_interfaces.msg import EpisodeEvent, SafetyEvent
from rclpy.duration import Duration
from rclpy.node import Node
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from opc_ros.arms.safety import StopSwitch
from opc_ros.arms.stop_memory import StopMemory
from opc_ros.ros import convert, topics
from opc_ros.ros.services import create_service

TOPIC = "stop"
KINDS = {
    SafetyEvent.CLAMPED: "clamped",
    SafetyEvent.REFUSED: "refused",
    SafetyEvent.WATCHDOG: "watchdog",
    SafetyEvent.STOP: "stop",
    SafetyEvent.RELEASED: "released",
    SafetyEvent.FAULT: "fault",
}


class SafetyReporter:
    """Publishes what a limit, a watchdog or a person did in which episode, on `safety/event` and in the log."""

    def __init__(self, node: Node, robot: str, episode: Callable[[], str] | None = None) -> None:
        """`episode` gives the id of the one that runs, or nothing; without it, what `hear_episode` was told counts."""
        self._node = node
        self._robot = robot
        self._heard_episode = ""
        self._episode = episode or (lambda: self._heard_episode)
        self._events = node.create_publisher(SafetyEvent, "safety/event", topics.RECORDED)

    @property
    def listeners(self) -> int:
        """How many hear what is reported."""
        return int(self._events.get_subscription_count())

    def close(self) -> None:
        self._node.destroy_publisher(self._events)

    def report(self, kind: int, detail: str) -> None:
        stamp_ns = int(self._node.get_clock().now().nanoseconds)
        self._events.publish(
            SafetyEvent(
                header=convert.header(stamp_ns),
                robot=self._robot,
                episode_id=self._episode(),
                kind=kind,
                detail=detail,
            )
        )
        self._node.get_logger().warning(f"{KINDS[kind]}: {detail}")

    def hear_episode(self, msg: EpisodeEvent) -> None:
        self._heard_episode = msg.episode_id if msg.kind == EpisodeEvent.BEGIN else ""


class StopChannel:
    """Presses and lifts one switch from the topic `stop`, the service `~/stop` and from inside, and tells everybody.

    The topic is std_msgs/Bool, kept for late comers: true stops, false releases.
    """

    def __init__(
        self,
        node: Node,
        switch: StopSwitch,
        reporter: SafetyReporter,
        on_press: Callable[[], None],
        memory: StopMemory | None = None,
    ) -> None:
        """`on_press` holds the arm; it is called before anything is published.

        With a memory a stop outlives whoever pressed it: it is kept on disk, and told again to all who come later.
        """
        self._node = node
        self._switch = switch
        self._reporter = reporter
        self._on_press = on_press
        self._memory = memory
        self._said: deque[tuple[int, int]] = deque(maxlen=32)  # when this channel itself was publishing, from and to
        self._publisher = node.create_publisher(Bool, TOPIC, topics.LATEST)
        self._subscription = node.create_subscription(Bool, TOPIC, self._on_topic, topics.LATEST)
        self._service = create_service(node, SetBool, "~/stop", self._on_service)
        # After the stop, for what came at the same time is dealt with in this order: a stop belongs to what it ends.
        self._episodes = node.create_subscription(EpisodeEvent, "episode/event", reporter.hear_episode, topics.RECORDED)
        kept = memory.recall() if memory is not None else None
        if kept is not None and switch.press(*kept):
            self._say(True)

    def close(self) -> None:
        self._node.destroy_service(self._service)
        self._node.destroy_subscription(self._episodes)
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)

    def press(self, reason: str) -> None:
        """Stop this arm and tell everybody."""
        stamp_ns = time.time_ns()
        if self._switch.press(reason, stamp_ns):
            self._on_press()
            self._remember(stamp_ns)
            self._reporter.report(SafetyEvent.STOP, reason)
        self._say(True)

    def lift(self, detail: str) -> None:
        """Release this arm and tell everybody."""
        if self._switch.lift(time.time_ns()):
            self._remember(0)
            self._reporter.report(SafetyEvent.RELEASED, detail)
        self._say(False)
        # A command that follows must not overtake the release.
        self._publisher.wait_for_all_acked(Duration(seconds=0.5))

    def _on_topic(self, msg: Bool, info: dict[str, int]) -> None:
        stamp_ns = int(info["source_timestamp"])
        if any(start <= stamp_ns <= end for start, end in self._said):
            return
        if msg.data:
            if self._switch.press("told on the topic stop", stamp_ns):
                self._on_press()
                self._remember(stamp_ns)
                self._retell(True)
                self._reporter.report(SafetyEvent.STOP, "told on the topic stop")
        elif self._switch.lift(stamp_ns):
            self._remember(0)
            self._retell(False)
            self._reporter.report(SafetyEvent.RELEASED, "told on the topic stop")
        elif self._switch.reason is not None:
            self._node.get_logger().warning("a release from before the stop is ignored; do the clocks differ?")

    def _on_service(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if request.data:
            self.press("told by the service stop")
        else:
            self.lift("told by the service stop")
        response.success = True
        response.message = "stopped" if self._switch.reason is not None else "released"
        return response

    def _remember(self, stamp_ns: int) -> None:
        """Keep the stop that is in force, or that there is none."""
        if self._memory is None:
            return
        try:
            if self._switch.reason is None:
                self._memory.forget()
            else:
                self._memory.keep(self._switch.reason, stamp_ns)
        except OSError as error:  # the arm is held all the same, but a restart would forget it
            self._node.get_logger().error(f"the stop cannot be kept on disk: {error}")

    def _retell(self, is_stopped: bool) -> None:
        """Whoever remembers speaks for a presser that may be gone by the time somebody joins."""
        if self._memory is not None:
            self._say(is_stopped)

    def _say(self, is_stopped: bool) -> None:
        start_ns = time.time_ns()
        # The end is open until the call returns, and the message may come back before that.
        self._said.append((start_ns, start_ns + 1_000_000_000))
        self._publisher.publish(Bool(data=is_stopped))
        self._said[-1] = (start_ns, time.time_ns())
