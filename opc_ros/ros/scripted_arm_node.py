"""A scripted arm on ROS topics: what demonstrations and tests record, and a model of what an arm has to publish."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from opc_interfaces.msg import EpisodeEvent
from opc_interfaces.msg import GraspAction as GraspActionMsg
from opc_interfaces.msg import GraspStep as GraspStepMsg
from rclpy.duration import Duration
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage

from opc_ros.arms.arm import ScriptedArm
from opc_ros.config import described
from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.grasp import MAX_STEPS, GraspAction, GraspStep, Observation, ToolState
from opc_ros.recording.episode_id import make_episode_id
from opc_ros.ros import convert, topics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.recorder_watch import RecorderWatch
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node

POLICY = "scripted"


@dataclass(frozen=True, slots=True)
class ScriptedArmSettings:
    """Parameters of the scripted arm."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    seed: int = described(0, "what the arm does follows from it", low=0)
    rate_hz: float = described(10.0, "frames, and within an episode steps, each second", low=0.1, high=200)
    image_size: int = described(472, "width and height of the frames in pixels", low=16, high=4096)
    jpeg_quality: int = described(95, "of the frames", low=1, high=100)
    episodes: int = described(0, "how many to play before the program ends; 0: until stopped", low=0)
    aim_noise_m: float = described(0.02, "how far the policy misses, one standard deviation along x and y", low=0)
    object_set: str = described("disc", "name of what lies in the bin")
    is_labelled: bool = described(True, "whether end events say if the disc is held")
    wait_for_recorder: bool = described(True, "begin an episode only while a recorder says it is ready for one")


def choose_action(tool: ToolState, target_xy: tuple[float, float]) -> GraspAction:
    """Go down on the target, close, lift, terminate: which of them follows from where the tool is."""
    limit = 0.08
    if tool.aperture_m > 0.0 and tool.z_m > ScriptedArm.FLOOR_M + 1e-6:
        dx, dy = (
            min(max(goal - here, -limit), limit) for goal, here in zip(target_xy, (tool.x_m, tool.y_m), strict=True)
        )
        return GraspAction(displacement_m=(dx, dy, -limit))
    if tool.aperture_m > 0.0:
        return GraspAction(close_gripper=True)
    if tool.z_m < ScriptedArm.FLOOR_M + limit:
        return GraspAction(displacement_m=(0.0, 0.0, limit))
    return GraspAction(terminate=True)


class ScriptedArmNode(OpcNode[ScriptedArmSettings]):
    """A fake arm with a camera, driven by a script that sometimes misses."""

    NAME = "scripted_arm"
    SETTINGS = ScriptedArmSettings

    def setup(self, settings: ScriptedArmSettings) -> None:
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        self._arm = ScriptedArm(self._robot, image_size=settings.image_size, now=self.now_ns)
        # Two of them, so that how long the arm waits does not change what it does.
        self._rng, self._sensor_rng = np.random.default_rng(settings.seed).spawn(2)
        self._played = 0
        self._episode_id = ""
        self._index = 0
        self._wait_told = ""
        self._frames = self._publisher(CompressedImage, "camera/image/compressed", topics.pictures())
        self._actions = self._publisher(GraspActionMsg, "grasp/action", topics.RECORDED)
        self._steps = self._publisher(GraspStepMsg, "grasp/step", topics.RECORDED)
        self._events = self._publisher(EpisodeEvent, "episode/event", topics.RECORDED)
        self._recorder = RecorderWatch(self)
        self.held.callback(self._recorder.close)
        self.held.callback(self._arm.close)
        self._arm.begin(seed=settings.seed)

    def start(self) -> None:
        self._timer = self.create_timer(1.0 / self._settings.rate_hz, self._tick)

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        if self._episode_id:
            self._publish_event(EpisodeEvent.ABORT, reason="the arm was stopped")
            self._episode_id = ""

    def _publisher(self, kind: type, topic: str, qos: QoSProfile) -> Publisher:
        publisher = self.create_publisher(kind, topic, qos)
        self.held.callback(self.destroy_publisher, publisher)
        # What was said last must not die with this process.
        self.held.callback(publisher.wait_for_all_acked, Duration(seconds=1))
        return publisher

    def _tick(self) -> None:
        if not self._episode_id and self._may_begin():
            self._begin()
        observation = self._arm.observe()
        frame = Frame.from_image(
            self._add_noise(observation.image), observation.stamp_ns, quality=self._settings.jpeg_quality
        )
        self._frames.publish(convert.frame_to_msg(frame))
        if self._episode_id:
            self._step(frame, observation)

    def _may_begin(self) -> bool:
        if self._settings.episodes and self._played >= self._settings.episodes:
            return False
        if not self._settings.wait_for_recorder:
            return True
        if not self._recorder.is_ready:
            self.get_logger().info(f"waiting for a recorder: {self._recorder.complaint}", throttle_duration_sec=10.0)
        return self._recorder.is_ready

    def _begin(self) -> None:
        self._arm.begin(seed=int(self._rng.integers(2**32)))
        noise = self._rng.normal(0.0, self._settings.aim_noise_m, size=2) if self._settings.aim_noise_m else (0.0, 0.0)
        x, y = self._arm.disc_xy
        self._target_xy = (x + float(noise[0]), y + float(noise[1]))
        self._episode_id = make_episode_id(self._robot, self.now_ns())
        self._index = 0
        self._publish_event(EpisodeEvent.BEGIN, behaviour_policy=POLICY, object_set=self._settings.object_set)

    def _step(self, frame: Frame, observation: Observation) -> None:
        action = choose_action(observation.tool, self._target_xy)
        chosen_ns = self.now_ns()
        motion = self._arm.apply(action)
        step = GraspStep(
            frame=frame, tool=observation.tool, action=action, sent=motion.sent if motion.clamped else None
        )
        msg = convert.step_to_msg(
            step, robot=self._robot, episode_id=self._episode_id, index=self._index, chosen_ns=chosen_ns
        )
        self._actions.publish(msg.action)
        self._steps.publish(msg)
        self._index += 1
        if action.terminate or self._index >= MAX_STEPS:
            self._end()

    def _end(self) -> None:
        label = Label()
        if self._settings.is_labelled:
            label = Label(is_success=self._arm.finish(), source=LabelSource.EPISODE_END, labeller=self._robot)
        self._publish_event(
            EpisodeEvent.END,
            label=convert.label_value(label),
            label_source=convert.label_source_number(label.source),
            labeller=label.labeller,
            steps=self._index,
        )
        self._episode_id = ""
        self._played += 1
        if self._played == self._settings.episodes:
            self.get_logger().info(f"played {self._played} episodes")
            self.finish()

    def _publish_event(self, kind: int, **fields: object) -> None:
        self._events.publish(
            EpisodeEvent(
                header=convert.header(self.now_ns()),
                robot=self._robot,
                episode_id=self._episode_id,
                kind=kind,
                **fields,
            )
        )

    def _add_noise(self, image: np.ndarray) -> np.ndarray:
        """No two frames of a real sensor are the same."""
        noisy = image.copy()
        patch = noisy[:16, :16]
        patch[...] = self._sensor_rng.integers(0, 256, size=patch.shape, dtype=np.uint8)
        return noisy


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(ScriptedArmNode, argv)


if __name__ == "__main__":
    sys.exit(main())
