"""Publishes an arm's episodes for its recorder."""

from __future__ import annotations

from collections.abc import Callable

from opc_interfaces.msg import EpisodeEvent
from opc_interfaces.msg import GraspAction as GraspActionMsg
from opc_interfaces.msg import GraspStep as GraspStepMsg
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage

from opc_ros.arms.arm import Motion
from opc_ros.deployment.permit import Permit
from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep, Observation
from opc_ros.ros import convert, topics

Progress = Callable[[str, int], None]  # episode id, step


class BehaviourEpisodes:
    """Publishes episodes that no candidate plays; each gets its id when it begins."""

    def __init__(
        self,
        told: EpisodeTopics,
        make_id: Callable[[], str],
        *,
        behaviour_policy: str,
        object_set: str,
        permit_id: str = "",
        judge: Callable[[bool], bool | None] = lambda is_success: is_success,
    ) -> None:
        """`judge` turns the arm's verdict into a label; None leaves that to a person."""
        self._told = told
        self._make_id = make_id
        self._behaviour_policy = behaviour_policy
        self._object_set = object_set
        self._permit_id = permit_id
        self._judge = judge
        self.last_id = ""  # of the current or the last episode

    def begin(self, seed: int, seen: Observation) -> None:
        self.last_id = self._make_id()
        self._told.announce(
            self.last_id,
            behaviour_policy=self._behaviour_policy,
            object_set=self._object_set,
            permit_id=self._permit_id,
            seed=seed,
            began_ns=seen.stamp_ns,
        )

    def step(self, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        self._told.step(self.last_id, index, seen, chosen, motion)

    def end(self, is_success: bool, steps: int) -> None:
        self._told.end(self.last_id, self._judge(is_success), steps)

    def abort(self, reason: str) -> None:
        self._told.abort(self.last_id, reason)


class EpisodeTopics:
    """An implementation of RunListener that publishes `episode/event`, `grasp/action` and `grasp/step`."""

    def __init__(
        self,
        node: Node,
        robot: str,
        now: Callable[[], int],
        on_step: Progress = lambda episode_id, step: None,
        *,
        has_camera: bool,
    ) -> None:
        """For arms without a camera node, such as the scripted arm, this class publishes the frames as well."""
        self._node = node
        self._robot = robot
        self._now = now
        self._on_step = on_step
        self.episode_id = ""  # of the current episode
        self._events = node.create_publisher(EpisodeEvent, "episode/event", topics.RECORDED)
        self._actions = node.create_publisher(GraspActionMsg, "grasp/action", topics.RECORDED)
        self._steps = node.create_publisher(GraspStepMsg, "grasp/step", topics.RECORDED)
        self._frames = (
            None if has_camera else node.create_publisher(CompressedImage, "camera/image/compressed", topics.images())
        )

    def close(self) -> None:
        for publisher in (self._events, self._actions, self._steps, self._frames):
            if publisher is not None:
                publisher.wait_for_all_acked(Duration(seconds=1))
                self._node.destroy_publisher(publisher)

    def show(self, seen: Observation) -> Frame:
        """Publish an image losslessly, where no camera does, so that what is recorded is what was seen."""
        frame = Frame.lossless(seen.image, seen.stamp_ns)
        if self._frames is not None:
            self._frames.publish(convert.frame_to_msg(frame))
        return frame

    def begin(self, episode_id: str, permit: Permit, seed: int, began_ns: int) -> None:
        self.announce(
            episode_id,
            behaviour_policy=permit.candidate_id,
            permit_id=permit.permit_id,
            seed=seed,
            began_ns=began_ns,
        )

    def announce(
        self,
        episode_id: str,
        *,
        behaviour_policy: str,
        began_ns: int,
        object_set: str = "",
        permit_id: str = "",
        seed: int | None = None,
    ) -> None:
        """Announce an episode, with or without a permit, that begins with the frame of this timestamp."""
        self._tell(
            EpisodeEvent.BEGIN,
            episode_id,
            began_ns,
            behaviour_policy=behaviour_policy,
            object_set=object_set,
            permit_id=permit_id,
            seed=-1 if seed is None else seed,
        )

    def step(self, episode_id: str, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        frame = self.show(seen) if self._frames is not None else Frame(seen.stamp_ns, "jpeg", b"")
        step = GraspStep(frame=frame, tool=seen.tool, action=chosen, sent=motion.sent if motion.clamped else None)
        msg = convert.step_to_msg(step, robot=self._robot, episode_id=episode_id, index=index, chosen_ns=self._now())
        self._actions.publish(msg.action)
        self._steps.publish(msg)
        self._on_step(episode_id, index)

    def end(self, episode_id: str, is_success: bool | None, steps: int) -> None:
        """End the episode; None means that nobody knows yet whether it succeeded."""
        label = Label()
        if is_success is not None:
            label = Label(is_success=is_success, source=LabelSource.EPISODE_END, labeller=self._robot)
        self._tell(
            EpisodeEvent.END,
            episode_id,
            self._now(),
            label=convert.label_value(label),
            label_source=convert.label_source_number(label.source),
            labeller=label.labeller,
            steps=steps,
        )

    def abort(self, episode_id: str, reason: str) -> None:
        self._tell(EpisodeEvent.ABORT, episode_id, self._now(), reason=reason)

    def _tell(self, kind: int, episode_id: str, stamp_ns: int, **fields: object) -> None:
        self.episode_id = episode_id if kind == EpisodeEvent.BEGIN else ""
        header = convert.header(stamp_ns)
        self._events.publish(EpisodeEvent(header=header, robot=self._robot, episode_id=episode_id, kind=kind, **fields))
