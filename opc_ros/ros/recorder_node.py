"""The recorder on ROS: topics and services in, episodes into the store, status and diagnostics out."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from opc_interfaces.msg import EpisodeEvent, EpisodeSummary, RecorderStatus
from opc_interfaces.msg import GraspAction as GraspActionMsg
from opc_interfaces.msg import GraspStep as GraspStepMsg
from opc_interfaces.msg import Label as LabelMsg
from opc_interfaces.msg import ToolState as ToolStateMsg
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage, Image

from opc_ros.bringup.lab_names import in_lab
from opc_ros.episode import Label
from opc_ros.errors import OpcError, RecordingError, StoreError
from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.free_space import FreeSpace
from opc_ros.recording.health import HealthFinding
from opc_ros.recording.recorder import Recorder, RecorderEnvironment
from opc_ros.recording.running_episode import StepReport
from opc_ros.recording.settings import RecorderSettings
from opc_ros.recording.step_joiner import BareAction, StepJoiner
from opc_ros.recording.view import RecorderView
from opc_ros.ros import convert, topics, wire_streams
from opc_ros.ros.episode_publishers import EpisodePublishers
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.recorder_messages import diagnostics_to_msg, status_to_msg, summary_to_msg
from opc_ros.ros.recorder_services import RecorderServices
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.store_sink import StoreSink
from opc_ros.store import open_store
from opc_ros.workflows.labelling import HOW_TO_LABEL, SignedLabels, unsigned_persons_label

TICK_S = 0.1
STATUS_S = 1.0
SAY_WAITING_S = 3.0  # a camera that is running has been discovered by then


class RecorderNode(OpcNode[RecorderSettings]):
    """Records the grasp episodes of one robot into a validation store."""

    NAME = "recorder"
    SETTINGS = RecorderSettings

    def setup(self, settings: RecorderSettings) -> None:
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        self._subscriptions_held: list[Subscription] = []
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting_for: dict[str, list[Future]] = {}
        self._shown: tuple[object, ...] = ()
        self._episode_publishers = EpisodePublishers(self, told_by_one(settings))
        self._rivalled = ""  # the episode for which other publishers were already reported
        self._is_camera_reliable = True
        self._joiner = StepJoiner(max_apart_s=settings.max_tool_apart_s, timeout_s=settings.pairing_timeout_s / 2)
        self._summaries = self._publisher(EpisodeSummary, "episode/summary", topics.RECORDED)
        self._statuses = self._publisher(RecorderStatus, "recorder/status", topics.LATEST)
        self._diagnostics = self._publisher(DiagnosticArray, in_lab("/diagnostics"), topics.RECORDED)
        self._bell = self.create_guard_condition(self._run_calls)
        self.held.callback(self.destroy_guard_condition, self._bell)
        self._recorder = self._open_recorder()
        self._signed_labels = SignedLabels(Path(settings.keys), time.time_ns) if settings.keys else None
        services = RecorderServices(
            self,
            self._recorder,
            button_labeller=settings.button_labeller,
            signed_labels=self._signed_labels,
            is_active=lambda: self.is_active,
            outcome_of=self._outcome_of,
            soon=self._soon,
        )
        services.offer(self.held)
        for period_s, callback in ((TICK_S, self._tick), (STATUS_S, self._publish_state)):
            timer = create_steady_timer(self, period_s, callback)
            self.held.callback(self.destroy_timer, timer)

    def start(self) -> None:
        settings = self._settings
        self._subscribe_camera()
        self._listen(EpisodeEvent, settings.event_topic, "steps", self._on_event)
        self._listen(LabelMsg, settings.label_topic, "labels", self._on_label)
        if settings.step_kind == "step":
            self._listen(GraspStepMsg, settings.step_topic, "steps", self._on_step)
        else:
            self._listen(ToolStateMsg, settings.tool_topic, "steps", self._on_tool)
            self._listen(GraspActionMsg, settings.action_topic, "steps", self._on_action)
        self._subscriptions_held += wire_streams.listen(self, settings, self._recorder.add_wire_message)
        self._started_s = time.monotonic()
        self.get_logger().info(f"recording {self._robot} into {self._store_path}")

    def pause(self) -> None:
        for subscription in self._subscriptions_held:
            self.destroy_subscription(subscription)
        self._subscriptions_held.clear()
        self._recorder.break_off("the recorder was stopped in the middle of the episode")
        self._publish_state()

    def _open_recorder(self) -> Recorder:
        store = open_store(self._settings.store, create=True)
        self._store_path = store.path
        if not os.access(store.path, os.W_OK):
            raise StoreError(f"{store.path}: cannot be written to; make it writable or name another store")
        sink = StoreSink(store, wire_streams.find_topics(self, self._settings))
        space = FreeSpace(store.path)
        self.held.callback(space.close)
        surroundings = RecorderEnvironment(
            stamp_ns=self.now_ns,
            wall_ns=time.time_ns,
            mono_ns=time.monotonic_ns,
            free_bytes=space.read,
        )
        recorder = Recorder(
            self._robot,
            self._settings,
            sink,
            surroundings,
            tell=lambda outcome: self._soon(partial(self._publish_outcome, outcome)),
        )
        self.held.callback(self._close, recorder)
        # Reading many sidecars takes a while, and nobody is waiting for the count.
        threading.Thread(target=self._count_unlabelled, args=(recorder, sink), daemon=True).start()
        return recorder

    def _count_unlabelled(self, recorder: Recorder, sink: StoreSink) -> None:
        try:
            recorder.add_unlabelled(sink.unlabelled())
        except OpcError as error:
            self.get_logger().warning(f"unlabelled episodes could not be counted: {error}")

    def _close(self, recorder: Recorder) -> None:
        if not recorder.close("the recorder was stopped in the middle of the episode"):
            self.get_logger().error("writing to disk did not finish in time; run opc store recover")
        self._run_calls()

    def _publisher(self, kind: type, topic: str, qos: QoSProfile) -> Publisher:
        publisher = self.create_publisher(kind, topic, qos)
        self.held.callback(self.destroy_publisher, publisher)
        self.held.callback(publisher.wait_for_all_acked, Duration(seconds=0.5))
        return publisher

    def _listen(self, kind: type, topic: str, watch: str, callback: Callable[[Any], None]) -> None:
        guarded = partial(self._guard, watch, callback)
        self._subscriptions_held.append(self.create_subscription(kind, topic, guarded, topics.RECORDED))

    def _subscribe_camera(self) -> None:
        """Subscribe reliably first; a camera that only offers best effort shows through `incompatible_qos`."""
        settings = self._settings
        subscription = self.create_subscription(
            CompressedImage if settings.image_kind == "compressed" else Image,
            settings.image_topic,
            partial(self._guard, "missing frames", self._on_frame),
            topics.images(is_reliable=self._is_camera_reliable),
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=self._on_incompatible_camera),
        )
        self._subscriptions_held.append(subscription)

    def _on_incompatible_camera(self, event: Any) -> None:
        if self._is_camera_reliable:
            self._is_camera_reliable = False
            self.get_logger().warning(f"{self._settings.image_topic} is best effort: frames may be lost on their way")
            self._subscribe_camera()

    def _guard(self, watch: str, callback: Callable[[Any], None], msg: Any) -> None:
        """Run a callback; a message that cannot be used is logged and shown, and recording continues."""
        try:
            callback(msg)
        except OpcError as error:
            self.get_logger().warning(str(error))
            self._recorder.note(HealthFinding(watch, str(error)))

    def _on_frame(self, msg: CompressedImage | Image) -> None:
        self._recorder.add_frame(convert.frame_from_msg(msg))

    def _on_step(self, msg: GraspStepMsg) -> None:
        self._recorder.add_step(
            StepReport(
                episode_id=msg.episode_id,
                index=msg.index,
                stamp_ns=convert.stamp_to_ns(msg.header.stamp),
                tool=convert.tool_from_msg(msg.tool),
                action=convert.action_from_msg(msg.action),
                sent=convert.action_from_msg(msg.sent) if msg.is_clamped else None,
            )
        )

    def _on_tool(self, msg: ToolStateMsg) -> None:
        self._joiner.add_tool(convert.stamp_to_ns(msg.header.stamp), convert.tool_from_msg(msg))
        self._join_steps()

    def _on_action(self, msg: GraspActionMsg) -> None:
        stamp_ns = convert.stamp_to_ns(msg.observation_stamp)
        bare = BareAction(msg.episode_id, msg.index, stamp_ns, convert.action_from_msg(msg))
        self._joiner.add_action(bare, time.monotonic_ns())
        self._join_steps()

    def _join_steps(self) -> None:
        for item in self._joiner.join(time.monotonic_ns()):
            if isinstance(item, HealthFinding):
                self._recorder.note(item)
            else:
                self._recorder.add_step(item)

    def _on_event(self, msg: EpisodeEvent) -> None:
        recorder = self._recorder
        if msg.robot not in ("", self._robot):
            raise RecordingError(f"event of robot {msg.robot!r} on the topics of {self._robot!r}: check the namespaces")
        if msg.kind == EpisodeEvent.BEGIN:
            recorder.begin(
                msg.episode_id,
                msg.behaviour_policy,
                msg.object_set,
                msg.permit_id,
                task=msg.task,
                seed=msg.seed if msg.seed >= 0 else None,
                stamp_ns=convert.stamp_to_ns(msg.header.stamp),
            )
        elif msg.kind == EpisodeEvent.END:
            source = msg.label_source or LabelMsg.SOURCE_EPISODE_END
            label = convert.label_from_fields(msg.label, source, msg.labeller)
            complaint = unsigned_persons_label(label) if self._signed_labels is not None else ""
            recorder.end(msg.episode_id, Label() if complaint else label, msg.steps)
            if complaint:
                raise RecordingError(complaint)
        elif msg.kind == EpisodeEvent.DISCARD:
            recorder.discard(msg.episode_id, msg.reason)
        elif msg.kind == EpisodeEvent.ABORT:
            recorder.abort(msg.episode_id, msg.reason)
        else:
            raise RecordingError(f"event of kind {msg.kind}, expected 0 (begin) to 3 (abort)")
        self._show_changes()

    def _on_label(self, msg: LabelMsg) -> None:
        def done(result: int | Exception) -> None:
            if isinstance(result, Exception):
                self._soon(partial(self._recorder.note, HealthFinding("labels", f"not kept: {result}")))

        if self._signed_labels is not None:
            raise RecordingError(f"label of {msg.episode_id[:64]!r}: nobody has signed it: {HOW_TO_LABEL}")
        self._recorder.label(msg.episode_id, convert.label_from_msg(msg), msg.note, done)

    def _soon(self, call: Callable[[], None]) -> None:
        """Have something called in the node's own thread; may be used from any thread."""
        self._calls.put(call)
        self._bell.trigger()

    def _run_calls(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._calls.get_nowait()()
        self._show_changes()

    def _publish_outcome(self, outcome: RecordingOutcome) -> None:
        if outcome.kind == "quarantined":
            self.get_logger().warning(str(outcome))
        else:
            self.get_logger().info(str(outcome))
        self._summaries.publish(summary_to_msg(outcome, self.now_ns()))
        for future in self._waiting_for.pop(outcome.start.id, []):
            future.set_result(outcome)

    def _outcome_of(self, episode_id: str) -> Future:
        future = Future(executor=self.executor)
        self._waiting_for.setdefault(episode_id, []).append(future)
        return future

    def _tick(self) -> None:
        if self.is_active:
            self._join_steps()
            self._look_for_rivals()
            self._recorder.tick()
        self._show_changes()

    def _look_for_rivals(self) -> None:
        """Quarantine an episode that others may have published into, if people here have keys."""
        running = self._recorder.running_id
        if self._signed_labels is None or running in ("", self._rivalled):
            return
        if text := self._episode_publishers.find_rivals():
            self._rivalled = running
            self.get_logger().warning(text)
            self._recorder.note(HealthFinding("steps", text, spoils=True))

    def _show_changes(self) -> None:
        if self._essence(self._recorder.view()) != self._shown:
            self._publish_state()

    def _publish_state(self) -> None:
        view, now_ns = self._recorder.view(), self.now_ns()
        self._shown = self._essence(view)
        if self.is_active and not view.frames_received and time.monotonic() - self._started_s > SAY_WAITING_S:
            topic = self.resolve_topic_name(self._settings.image_topic)
            self.get_logger().warning(f"waiting for a camera: no image on {topic} yet", throttle_duration_sec=30.0)
        self._statuses.publish(status_to_msg(view, self._robot, now_ns, is_active=self.is_active))
        self._diagnostics.publish(diagnostics_to_msg(self._recorder.findings(), view, self._robot, now_ns))

    def _essence(self, view: RecorderView) -> tuple[object, ...]:
        """The part of the state whose changes are published at once; the rest waits for the next second."""
        return (
            self.is_active,
            view.state,
            view.reason,
            view.episode_id,
            view.last_outcome,
            view.episodes_unlabelled,
            view.frames_received > 0,
        )


def told_by_one(settings: RecorderSettings) -> tuple[str, ...]:
    """Topics that only one arm and its camera publish during an episode."""
    steps = (settings.step_topic,) if settings.step_kind == "step" else (settings.tool_topic, settings.action_topic)
    return (settings.event_topic, settings.image_topic, *steps)


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(RecorderNode, argv)


if __name__ == "__main__":
    sys.exit(main())
