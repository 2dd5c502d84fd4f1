"""A scripted arm on ROS topics: what demos and tests record, and an example of what an arm has to publish."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from rclpy.duration import Duration
from sensor_msgs.msg import CompressedImage

from opc_ros.arms.arm import Motion, ScriptedArm
from opc_ros.config import described
from opc_ros.episode import Frame
from opc_ros.errors import ArmStopped
from opc_ros.grasp import GraspAction, Observation, ToolState
from opc_ros.playing import play_episode
from opc_ros.recording.episode_id import make_episode_id
from opc_ros.ros import convert, topics
from opc_ros.ros.episode_topics import BehaviourEpisodes, EpisodeTopics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.recorder_watch import RecorderWatch
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer

POLICY = "scripted"
KEPT_TIMEOUT_S = 30.0  # a recorder that has not reported on an episode by then never will


@dataclass(frozen=True, slots=True)
class ScriptedArmSettings:
    """Parameters of the scripted arm."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    seed: int = described(0, "seed of everything the arm does", low=0)
    rate_hz: float = described(10.0, "frames per second, and steps per second within an episode", low=0.1, high=200)
    image_size: int = described(472, "width and height of the frames in pixels", low=16, high=4096)
    jpeg_quality: int = described(95, "of the frames", low=1, high=100)
    episodes: int = described(0, "how many to play before the program ends; 0: until stopped", low=0)
    aim_noise_m: float = described(0.02, "how far the policy misses, one standard deviation along x and y", low=0)
    object_set: str = described("disc", "name of what is in the bin")
    is_labelled: bool = described(True, "whether end events say if the disc is held")
    wait_for_recorder: bool = described(True, "begin an episode only while a recorder says it is ready for one")


def choose_action(tool: ToolState, target_xy: tuple[float, float]) -> GraspAction:
    """Move down onto the target, close, lift, terminate; the tool's position decides which comes next."""
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


class _WatchedArm:
    """A scripted arm under a camera with its own frame rate; `observe` waits for the next frame."""

    def __init__(self, arm: ScriptedArm, sensor_rng: np.random.Generator) -> None:
        self._arm = arm
        self._sensor_rng = sensor_rng
        self._changed = threading.Condition()
        self._seen: Observation | None = None  # None until a frame shows the arm after its last motion
        self._stop_reason = ""

    @property
    def name(self) -> str:
        return self._arm.name

    @property
    def disc_xy(self) -> tuple[float, float]:
        return self._arm.disc_xy

    def take_frame(self) -> Observation:
        """Take a frame; called at each tick of the camera."""
        with self._changed:
            clean = self._arm.observe()
            self._seen = dataclasses.replace(clean, image=self._add_noise(clean.image))
            self._changed.notify_all()
            return self._seen

    def begin(self, seed: int) -> Observation:
        with self._changed:
            self._arm.begin(seed)
            self._seen = None
        return self.observe()

    def observe(self) -> Observation:
        with self._changed:
            self._changed.wait_for(lambda: self._seen is not None or self._stop_reason)
            if self._stop_reason:
                raise ArmStopped(self._stop_reason)
            assert self._seen is not None
            return self._seen

    def apply(self, action: GraspAction) -> Motion:
        with self._changed:
            self._seen = None
            return self._arm.apply(action)

    def finish(self) -> bool:
        return self._arm.finish()

    def stop(self, reason: str) -> None:
        with self._changed:
            self._stop_reason = reason
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._stop_reason = ""

    def close(self) -> None:
        self.stop("closed")
        self._arm.close()

    def _add_noise(self, image: np.ndarray) -> np.ndarray:
        """Add noise: no two frames of a real sensor are alike."""
        noisy = image.copy()
        patch = noisy[:16, :16]
        patch[...] = self._sensor_rng.integers(0, 256, size=patch.shape, dtype=np.uint8)
        return noisy


class _Script:
    """Aims at the disc, and misses it by the configured noise."""

    name = POLICY

    def __init__(self, arm: _WatchedArm, rng: np.random.Generator, aim_noise_m: float) -> None:
        self._arm = arm
        self._rng = rng
        self._aim_noise_m = aim_noise_m
        self._target_xy = (0.0, 0.0)

    def begin(self, seed: int) -> None:
        miss = self._rng.normal(0.0, self._aim_noise_m, size=2) if self._aim_noise_m else (0.0, 0.0)
        x, y = self._arm.disc_xy
        self._target_xy = (x + float(miss[0]), y + float(miss[1]))

    def choose(self, observation: Observation) -> GraspAction:
        return choose_action(observation.tool, self._target_xy)


class ScriptedArmNode(OpcNode[ScriptedArmSettings]):
    """A fake arm with a camera, driven by a script that sometimes misses."""

    NAME = "scripted_arm"
    SETTINGS = ScriptedArmSettings

    def setup(self, settings: ScriptedArmSettings) -> None:
        self._settings = settings
        robot = robot_name(self, settings.robot)
        # Two generators, so that how long the arm waits does not change what it does.
        self._rng, sensor_rng = np.random.default_rng(settings.seed).spawn(2)
        inner = ScriptedArm(robot, image_size=settings.image_size, now=self.now_ns)
        inner.begin(seed=settings.seed)
        self._arm = _WatchedArm(inner, sensor_rng)
        self.held.callback(self._arm.close)
        self._script = _Script(self._arm, self._rng, settings.aim_noise_m)
        self._frames = self.create_publisher(CompressedImage, "camera/image/compressed", topics.images())
        self.held.callback(self.destroy_publisher, self._frames)
        # The last messages must go out before the process ends.
        self.held.callback(self._frames.wait_for_all_acked, Duration(seconds=1))
        told = EpisodeTopics(self, robot, self.now_ns, has_camera=True)
        self.held.callback(told.close)
        self._listener = BehaviourEpisodes(
            told,
            lambda: make_episode_id(robot, self.now_ns()),
            behaviour_policy=POLICY,
            object_set=settings.object_set,
            judge=(lambda is_success: is_success) if settings.is_labelled else (lambda is_success: None),
        )
        self._recorder = RecorderWatch(self)
        self.held.callback(self._recorder.close)
        self._stopping = threading.Event()
        self._played = 0

    def start(self) -> None:
        self._stopping.clear()
        self._arm.release()
        self._timer = create_steady_timer(self, 1.0 / self._settings.rate_hz, self._tick)
        self._thread = threading.Thread(target=partial(self.end_on_error, self._play_all))
        self._thread.start()

    def pause(self) -> None:
        self._stopping.set()
        self._arm.stop("the arm was stopped")
        self._thread.join()
        self.destroy_timer(self._timer)

    def _tick(self) -> None:
        seen = self._arm.take_frame()
        frame = Frame.from_image(seen.image, seen.stamp_ns, quality=self._settings.jpeg_quality)
        self._frames.publish(convert.frame_to_msg(frame))

    def _play_all(self) -> None:
        while self._wait_for_recorder():
            try:
                play_episode(self._arm, self._script, int(self._rng.integers(2**32)), self._listener)
            except ArmStopped:
                return
            self._played += 1
            if self._played == self._settings.episodes:
                if self._settings.wait_for_recorder:
                    self._recorder.wait_until_kept(self._listener.last_id, KEPT_TIMEOUT_S, self._stopping.is_set)
                self.get_logger().info(f"played {self._played} episodes")
                self.finish()
                return

    def _wait_for_recorder(self) -> bool:
        """Wait for the recorder; returns whether to continue."""
        while self._settings.wait_for_recorder and not self._recorder.is_ready:
            self.get_logger().info(f"waiting for a recorder: {self._recorder.complaint}", throttle_duration_sec=10.0)
            if self._stopping.wait(0.05):
                return False
        return not self._stopping.is_set()


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(ScriptedArmNode, argv)


if __name__ == "__main__":
    sys.exit(main())
