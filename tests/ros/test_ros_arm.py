"""RosArm on the twin node, each in a process of its own: what is clamped, refused, stopped and released."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus, SafetyEvent
from sensor_msgs.msg import CameraInfo, CompressedImage
from std_msgs.msg import Bool
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.arm import Arm
from opc_ros.arms.contract import ArmContract
from opc_ros.arms.trajectory import plan_hold
from opc_ros.errors import ArmError, ArmLost, ArmStopped
from opc_ros.grasp import GraspAction
from opc_ros.playing import record_episode
from opc_ros.policies.image_view import ImageView
from opc_ros.ros import convert, topics
from opc_ros.ros.joint_messages import trajectory_to_msg
from opc_ros.ros.ros_arm import RosArm
from sim_bridge.behaviour import BehaviourPolicy, find_behaviour
from sim_bridge.world import World
from sim_bridge.worlds import find_world
from tests.domains import own_domain
from tests.ros.releasing import make_people, release
from tests.ros.twin_rig import KINEMATICS, PATIENCE_S, ROBOT, SETTINGS, TwinProcess, Watcher

pytestmark = pytest.mark.ros
START = (SETTINGS.start.x_m, SETTINGS.start.y_m, SETTINGS.start.z_m)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("lab") / "keys")


@pytest.fixture(scope="module")
def twin(keys: Path) -> Iterator[TwinProcess]:
    with own_domain():
        process = TwinProcess(keys=keys)
        yield process
        assert process.stop() == 0


class ArmKeeper:
    """One arm for many tests, and a new one after it was closed."""

    def __init__(self, keys: Path) -> None:
        self._keys = keys
        self._arm = RosArm(SETTINGS, keys=keys)

    def get(self) -> RosArm:
        if self._arm.is_closed:
            self._arm = RosArm(SETTINGS, keys=self._keys)
        return self._arm


@pytest.fixture(scope="module")
def keeper(twin: TwinProcess, keys: Path) -> Iterator[ArmKeeper]:
    keeper = ArmKeeper(keys)
    yield keeper
    keeper.get().close()


@pytest.fixture
def arm(keeper: ArmKeeper, keys: Path) -> Iterator[RosArm]:
    arm = keeper.get()
    yield arm
    if arm._link.switch.reason is not None:
        lift_stop(arm, keys)


def lift_stop(arm: RosArm, keys: Path) -> None:
    """A person signs; the arm receives it as everybody does."""
    release(ROBOT, keys)
    deadline_s = time.monotonic() + PATIENCE_S
    while arm._link.switch.reason is not None:
        assert time.monotonic() < deadline_s, "the arm does not hear of its release"
        time.sleep(0.01)


@pytest.fixture
def watcher(twin: TwinProcess) -> Iterator[Watcher]:
    watcher = Watcher()
    watcher.wait_until(lambda: bool(watcher.joints) and bool(watcher.statuses))
    watcher.wait_until(lambda: watcher.node.count_publishers("/iiwa/safety/event") >= 1)
    yield watcher
    watcher.close()


def raw_commands(watcher: Watcher):
    publisher = watcher.node.create_publisher(JointTrajectory, "joint_trajectory_controller/joint_trajectory", 10)
    watcher.wait_until(lambda: publisher.get_subscription_count() > 0)
    return publisher


class TestRosArmOnTheTwin(ArmContract):
    is_exact = False  # another process's physics does not wait for us

    @pytest.fixture
    def arm(self, keeper: ArmKeeper, keys: Path) -> RosArm:
        self._keys = keys
        return keeper.get()

    def lift_stop(self, arm: Arm) -> None:
        with pytest.raises(ArmStopped):
            arm.release()
        assert isinstance(arm, RosArm)
        lift_stop(arm, self._keys)


def test_ten_steps_there_and_back_do_not_drift(arm: RosArm):
    arm.begin(seed=2)
    for _ in range(5):
        arm.apply(GraspAction(displacement_m=(0.0, 0.02, 0.0), rotation_rad=0.2))
        arm.apply(GraspAction(displacement_m=(0.0, -0.02, 0.0), rotation_rad=-0.2))
    tool = arm.observe().tool
    assert (tool.x_m, tool.y_m, tool.z_m) == pytest.approx(START, abs=1.5e-3)


def test_an_image_shows_the_arm_after_its_motion(arm: RosArm):
    before = arm.begin(seed=3)
    arm.apply(GraspAction(displacement_m=(0.0, 0.08, -0.08)))
    looks = [arm.observe() for _ in range(4)]
    assert all(early.stamp_ns < late.stamp_ns for early, late in pairwise(looks))
    moved, still = (np.abs(look.image.astype(int) - looks[-1].image).mean() for look in (before, looks[0]))
    assert still < moved / 10


def test_what_an_arm_sees_carries_the_bytes_that_others_record(arm: RosArm, watcher: Watcher):
    """So a candidate that gets reduced frames chooses on the very image that the scorer will make."""
    heard: list[CompressedImage] = []
    watcher.node.create_subscription(CompressedImage, SETTINGS.camera.topic, heard.append, topics.images())
    watcher.wait_until(lambda: bool(heard))
    seen = arm.begin(seed=3)
    watcher.wait_until(lambda: convert.stamp_to_ns(heard[-1].header.stamp) >= seen.stamp_ns)
    (recorded,) = [frame for frame in map(convert.frame_from_msg, heard) if frame.stamp_ns == seen.stamp_ns]
    assert recorded.encoding == "jpeg"
    assert seen.frame == recorded
    np.testing.assert_array_equal(seen.image, recorded.decode())
    reduced = ImageView((16, 16), is_reduced=True)
    np.testing.assert_array_equal(reduced.show_observation(seen), reduced.show(recorded))
    assert (reduced.show(recorded) != ImageView((16, 16)).show(recorded)).any()


def test_what_is_outside_is_clamped_reported_and_never_reached(arm: RosArm, watcher: Watcher):
    arm.begin(seed=6)
    watcher.wait_until(lambda: arm._link.safety.listeners > 0)
    motion = arm.apply(GraspAction(displacement_m=(0.0, 0.3, 0.0)))
    assert motion.clamped == ("dy is +0.3000 m, allowed +-0.0800",)
    assert motion.sent.displacement_m == (0.0, 0.08, 0.0)
    # The box ends 0.15 m to the left: 7 of the next 8 cm remain.
    motion = arm.apply(GraspAction(displacement_m=(0.0, 0.08, 0.08)))
    assert motion.clamped == ("tool y is 0.1600 m, allowed from -0.1500 to 0.1500",)
    assert motion.sent.displacement_m == pytest.approx((0.0, 0.07, 0.08), abs=1e-3)
    assert arm.observe().tool.y_m == pytest.approx(0.15, abs=1.5e-3)
    assert watcher.wait_for_event(SafetyEvent.CLAMPED, "tool y is").robot == "iiwa"


def test_a_turn_ends_where_the_last_joint_does(arm: RosArm):
    arm.begin(seed=6)
    motions = [arm.apply(GraspAction(rotation_rad=0.7)) for _ in range(5)]
    # Straight ahead the last joint turns against the yaw and may go to 173 deg: 3.02 rad, so the fifth turn is cut
    # short.
    assert [bool(motion.clamped) for motion in motions] == [False] * 4 + [True]
    assert "joint 7" in motions[-1].clamped[0]
    assert 2.8 <= arm.observe().tool.yaw_rad <= math.radians(173.0)
    assert sum(motion.sent.rotation_rad for motion in motions) == pytest.approx(arm.observe().tool.yaw_rad, abs=0.01)


def test_a_sure_hand_lifts_an_object_and_the_gripper_shows_it(arm: RosArm):
    sure = dataclasses.replace(
        find_behaviour("scripted"), aim_spread_m=0.0, depth_spread_m=0.0, yaw_spread_rad=0.0, epsilon=0.0
    )
    # The twin does not reveal where its objects lie; a world with the same layout does.
    with World(find_world("train"), image_size=32) as world:
        world.lay_out(6)
        episode = record_episode(arm, BehaviourPolicy(sure, world), 6, episode_id="e", object_set="train")
    assert episode.label.is_success
    assert len(episode.steps) < 12
    assert arm.observe().tool.aperture_m > 0.01


def test_a_stop_from_elsewhere_interrupts_a_motion_and_a_release_lets_it_go_on(
    arm: RosArm, watcher: Watcher, keys: Path
):
    arm.begin(seed=8)
    slow = dataclasses.replace(SETTINGS, motion=dataclasses.replace(SETTINGS.motion, tool_speed_m_s=0.005))
    mover = RosArm(slow, keys=keys)
    mover.begin(seed=8)
    publisher = watcher.node.create_publisher(Bool, "stop", topics.LATEST)
    # Twin, arm and mover.
    watcher.wait_until(lambda: publisher.get_subscription_count() >= 3)

    def stop_in_mid_motion() -> None:
        watcher.wait_until(lambda: watcher.tool_y_m() > 0.005)
        publisher.publish(Bool(data=True))

    stopper = threading.Thread(target=stop_in_mid_motion)
    stopper.start()
    with pytest.raises(ArmStopped, match="stopped by the topic stop"):
        mover.apply(GraspAction(displacement_m=(0.0, 0.08, 0.0)))
    stopper.join()
    assert watcher.wait_for_state(RobotStatus.STOPPED).reason == "stopped by the topic stop"
    assert 0.0 < mover.observe().tool.y_m < 0.075
    for held in (arm, mover):
        watcher.wait_until(lambda held=held: held._link.switch.reason is not None)
        with pytest.raises(ArmStopped):
            held.apply(GraspAction(displacement_m=(0.0, 0.02, 0.0)))
    release(ROBOT, keys)
    watcher.wait_for_state(RobotStatus.IDLE)
    watcher.wait_for_event(SafetyEvent.RELEASED)
    watcher.wait_until(lambda: arm._link.switch.reason is None and mover._link.switch.reason is None)
    mover.begin(seed=8)
    mover.close()
    arm.begin(seed=8)


def test_a_node_that_starts_after_a_stop_is_stopped_too(arm: RosArm, watcher: Watcher, keys: Path):
    arm.begin(seed=9)
    watcher.wait_until(lambda: arm._link.safety.listeners > 0)
    arm.stop("gate opened")
    assert watcher.wait_for_event(SafetyEvent.STOP, "gate opened")
    late = RosArm(SETTINGS, keys=keys)
    watcher.wait_until(lambda: late._link.switch.reason is not None)
    with pytest.raises(ArmStopped):
        late.begin(seed=9)
    release(ROBOT, keys)
    watcher.wait_for_state(RobotStatus.IDLE)
    watcher.wait_until(lambda: late._link.switch.reason is None)
    late.close()


def test_the_stop_service_stops_and_does_not_release(arm: RosArm, watcher: Watcher, keys: Path):
    arm.begin(seed=10)
    for service in ("arm/stop", "twin/stop"):
        client = watcher.node.create_client(SetBool, service)
        assert client.wait_for_service(timeout_sec=PATIENCE_S)
        for is_stopped in (True, False):
            future = client.call_async(SetBool.Request(data=is_stopped))
            watcher.wait_until(future.done)
            assert future.result().success == is_stopped
            watcher.wait_until(lambda: arm._link.switch.reason is not None)
            watcher.wait_for_state(RobotStatus.STOPPED)
        assert "`opc release iiwa`" in future.result().message
        lift_stop(arm, keys)


def test_a_trajectory_beyond_a_limit_is_refused_by_the_twin_itself(arm: RosArm, watcher: Watcher):
    arm.begin(seed=11)
    before = arm.observe().tool
    beyond = KINEMATICS.solve(SETTINGS.start.to_pose())
    beyond[3] = math.radians(-125)
    raw_commands(watcher).publish(trajectory_to_msg(plan_hold(beyond), SETTINGS.joint_names))
    event = watcher.wait_for_event(SafetyEvent.REFUSED)
    assert event.detail == "trajectory point 0: joint 4 is -125.00 deg, allowed from -120.00 to +120.00"
    after = arm.observe().tool
    assert (after.x_m, after.y_m, after.z_m) == pytest.approx((before.x_m, before.y_m, before.z_m), abs=1e-4)


def test_a_trajectory_that_is_too_fast_is_slowed_down_and_reported(arm: RosArm, watcher: Watcher):
    arm.begin(seed=12)
    away = KINEMATICS.solve(SETTINGS.start.to_pose())
    away[0] = math.radians(30)
    raw_commands(watcher).publish(trajectory_to_msg(plan_hold(away), SETTINGS.joint_names))
    assert watcher.wait_for_event(SafetyEvent.CLAMPED, "joint 1 would turn at").detail.endswith("allowed 85.0")
    watcher.wait_until(lambda: abs(watcher.joints[-1].position[0] - math.radians(30)) < 0.01)
    fastest = max(abs(state.velocity[0]) for state in watcher.joints)
    assert math.degrees(fastest) < 85 * 1.05


def test_joints_of_another_arm_are_refused(arm: RosArm, watcher: Watcher):
    arm.begin(seed=12)
    names = tuple(f"joint_a{i}" for i in range(1, 8))
    start = KINEMATICS.solve(SETTINGS.start.to_pose())
    raw_commands(watcher).publish(trajectory_to_msg(plan_hold(start), names))
    assert "expected A1, A2" in watcher.wait_for_event(SafetyEvent.REFUSED, "joint_a1").detail


def test_the_camera_says_how_it_is_calibrated(watcher: Watcher):
    heard: list[CameraInfo] = []
    watcher.node.create_subscription(CameraInfo, "camera/camera_info", heard.append, topics.images())
    watcher.wait_until(lambda: bool(heard))
    info = heard[0]
    assert (info.width, info.height, info.distortion_model) == (64, 64, "plumb_bob")
    assert (info.k[2], info.k[5], info.k[8]) == (31.5, 31.5, 1.0)
    assert info.k[0] == info.k[4] == info.p[0] > 64


def test_a_driver_that_is_not_there_is_named(twin: TwinProcess):
    nowhere = dataclasses.replace(SETTINGS, controller="other_controller", connect_timeout_s=0.5)
    arm = RosArm(nowhere)
    with pytest.raises(ArmLost, match=r"nobody listens on /iiwa/other_controller/joint_trajectory.* in 0\.5 s"):
        arm.begin(seed=0)
    arm.close()
    with pytest.raises(ArmStopped, match="closed"):
        arm.apply(GraspAction())


def test_wrong_joint_names_are_named(twin: TwinProcess):
    names = ("A1", "A2", "A3", "A4", "A5", "A6", "lbr_A7")
    arm = RosArm(dataclasses.replace(SETTINGS, joint_names=names))
    with pytest.raises(ArmError, match="but not lbr_A7: check joint_names"):
        arm.begin(seed=0)
    arm.close()
