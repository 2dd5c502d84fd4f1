"""RosArm: grasp actions as clamped joint trajectories through an arm's ROS 2 driver, real or simulated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from opc_interfaces.msg import SafetyEvent

from opc_ros.arms.action_limits import ActionLimits
from opc_ros.arms.arm import Motion
from opc_ros.arms.kinematics import ToolPose
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory, find_reachable, plan_joints, plan_line
from opc_ros.errors import ArmError, ArmLost, ArmStopped, OutOfReach
from opc_ros.grasp import GraspAction, Observation, ToolState
from opc_ros.ros.arm_link import ArmLink, WayMaker
from opc_ros.ros.arm_way import DirectWay
from opc_ros.ros.joint_messages import JointReading

STILL_S = 0.25  # an arm or a gripper that has not moved for this long has stopped
STILL_RAD = 0.002
STILL_M = 0.0005
MARGIN_S = 2.0  # on top of a motion's planned duration
TREMBLE_S = 1.0  # an arm that leans on something may tremble or creep without ever coming to rest
TREMBLE_RAD = math.radians(3.0)  # at most this far within that time; an arm that goes further is out of control
UPRIGHT_RAD = 0.1  # a tool tilted more than this is not lifted in a straight line
SMALLEST_MOVE = 1e-5  # metres or radians; anything less is not a motion


class RosArm:
    """An Arm behind the topics of a KUKA driver.

    Every motion is short, ends at rest and is sent as a whole, so if the connection is lost, the arm stops at the end
    of the current motion. After a loss only `begin` continues. Use an instance from one thread; `stop` may come from
    any.
    """

    def __init__(
        self,
        settings: ArmSettings,
        *,
        episode: Callable[[], str] | None = None,
        why_to_stop: Callable[[], str | None] | None = None,
        make_way: WayMaker = DirectWay,
        keys: Path | None = None,
        use_sim_time: bool = False,
    ) -> None:
        """`episode` names the current episode in safety events; by default it is taken from `episode/event`.

        `why_to_stop` is asked throughout every motion; a reason holds the arm at once and raises EpisodeStopped.
        `make_way` creates the path that commands take: directly to a driver in this ROS domain, or through a gateway.
        `keys` is a folder with the people whose signed releases lift a stop. `use_sim_time` is for twins without a
        guard.
        """
        self._settings = settings
        self._kinematics = settings.kinematics()
        self._limits = settings.joint_limits()
        self._action_limits = ActionLimits(settings.bounds, settings.workspace, self._kinematics, self._limits)
        self._link = ArmLink(settings, episode, why_to_stop, make_way, keys, use_sim_time)
        self._goal_rad: np.ndarray | None = None  # (7,), where the last motion was to end
        self._has_closed = False  # whether the gripper has closed since it was last opened
        self._looked_ns = 0  # images up to this time show the scene before the last motion
        self.is_closed = False

    @property
    def name(self) -> str:
        return self._settings.robot

    def begin(self, seed: int) -> Observation:
        self._refuse_if_closed()
        self._link.switch.refuse_if_pressed()
        self._link.begin()
        self._goal_rad = None
        if self._settings.lay_out:
            self._link.lay_out(seed)
            self._look_from(self._link.now_ns())
        self._clear_bin()
        start_rad = self._kinematics.solve(self._settings.start.to_pose())
        self._move(plan_joints(self._limits, self._link.reading().positions_rad, start_rad), must_arrive=True)
        self._set_gripper(self._settings.gripper.open_m)
        return self.observe()

    def observe(self) -> Observation:
        self._refuse_if_closed()
        camera = self._settings.camera
        is_new = self._link.wait_for(
            lambda: self._link.frame_after(self._looked_ns) is not None,
            timeout_s=camera.timeout_s,
            may_be_stopped=True,
        )
        frame = self._link.frame_after(self._looked_ns)
        if not is_new or frame is None:
            raise ArmLost(
                f"arm {self.name}: no image on {camera.topic} stamped after {self._looked_ns} ns within "
                f"{camera.timeout_s:g} s: is the camera running, and by the same clock?"
            )
        self._looked_ns = frame.stamp_ns
        tool = self._locate(self._link.reading_at(frame.stamp_ns))
        return Observation(stamp_ns=frame.stamp_ns, image=frame.decode(), tool=tool, frame=frame)

    def apply(self, action: GraspAction) -> Motion:
        self._refuse_if_closed()
        self._refuse_if_unfit()
        start_rad = self._standpoint()
        goal, motion = self._limit(action, start_rad)
        if _is_move(motion.sent):
            speed = self._settings.motion.tool_speed_m_s
            self._move(plan_line(self._kinematics, self._limits, start_rad, goal, tool_speed_m_s=speed))
        gripper = self._settings.gripper
        if motion.sent.open_gripper or motion.sent.close_gripper:
            self._set_gripper(gripper.open_m if motion.sent.open_gripper else gripper.closed_m)
        return motion

    def finish(self) -> bool:
        """Lift to the start's height and read the gripper: a real arm has no other way to tell."""
        self._refuse_if_closed()
        self._refuse_if_unfit()
        self._lift(self._standpoint())
        return self._has_closed and self._settings.gripper.holds(self._link.measured.aperture_m())

    def drop(self) -> tuple[Observation, Observation]:
        """At the start pose: one image with the gripper as it is, and one after it has opened."""
        self._refuse_if_closed()
        self._refuse_if_unfit()
        self._lift(self._standpoint())
        start_rad = self._kinematics.solve(self._settings.start.to_pose())
        self._move(plan_joints(self._limits, self._link.reading().positions_rad, start_rad), must_arrive=True)
        held = self.observe()
        self._set_gripper(self._settings.gripper.open_m)
        return held, self.observe()

    def stop(self, reason: str) -> None:
        if not self.is_closed:
            self._link.stop.press(reason)

    def release(self) -> None:
        """Raises while a stop is in force, because no program may release one."""
        self._link.switch.refuse_if_pressed()

    def rest(self) -> None:
        """Between episodes: hold still, and give the permission to move back."""
        if not self.is_closed:
            self._link.rest()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._link.close()

    def _clear_bin(self) -> None:
        """Move straight up first, so as not to sweep anything in the bin along."""
        joints = self._link.reading().positions_rad
        if self._kinematics.locate_tool(joints).tilt_rad < UPRIGHT_RAD:
            self._lift(joints)

    def _lift(self, joints_rad: np.ndarray) -> None:
        here = self._kinematics.locate_tool(joints_rad)
        above = ToolPose(here.x_m, here.y_m, max(here.z_m, self._settings.start.z_m), here.yaw_rad)
        goal, share, _ = find_reachable(self._kinematics, self._limits, joints_rad, above)
        if share * (above.z_m - here.z_m) > SMALLEST_MOVE:
            speed = self._settings.motion.tool_speed_m_s
            self._move(plan_line(self._kinematics, self._limits, joints_rad, goal, tool_speed_m_s=speed))

    def _limit(self, action: GraspAction, start_rad: np.ndarray) -> tuple[ToolPose, Motion]:
        try:
            goal, motion = self._action_limits.limit(action, start_rad)
        except OutOfReach as error:
            self._link.report(SafetyEvent.REFUSED, str(error))
            raise
        if motion.clamped:
            self._link.report(SafetyEvent.CLAMPED, "; ".join(motion.clamped))
        return goal, motion

    def _standpoint(self) -> np.ndarray:
        """Joint angles that the next motion starts from: the goal of the last motion, if the arm is there."""
        measured = self._link.reading().positions_rad
        if self._goal_rad is not None and self._is_near(measured, self._goal_rad):
            return self._goal_rad
        return measured

    def _move(self, trajectory: Trajectory, *, must_arrive: bool = False) -> None:
        """Send a trajectory and wait until the arm is at rest, at its goal or against an obstacle."""
        motion = self._settings.motion
        self._goal_rad = trajectory.goal_rad
        self._link.send(trajectory)
        sent_s = time.monotonic()
        has_ended = self._link.wait_for(
            lambda: (
                self._has_arrived(sent_s)
                or self._is_stuck(sent_s, trajectory.duration_s)
                or self._is_trembling(sent_s, trajectory.duration_s)
            ),
            timeout_s=motion.patience * trajectory.duration_s + MARGIN_S,
        )
        reading = self._link.reading()
        self._look_from(reading.stamp_ns)
        if has_ended and self._is_near(reading.positions_rad, trajectory.goal_rad):
            return
        # Do not keep pressing against an obstacle.
        self._link.hold()
        short = np.abs(reading.positions_rad - trajectory.goal_rad)
        line = f"joint {int(short.argmax()) + 1} stopped {math.degrees(short.max()):.2f} deg short of its goal"
        is_creeping = min(short.max(), self._link.measured.joint_travel_rad(TREMBLE_S, sent_s)) < TREMBLE_RAD
        if must_arrive or not (has_ended or is_creeping):
            self._link.report(SafetyEvent.FAULT, line)
            raise ArmError(f"arm {self.name}: {line}: is something in the way, or the controller not active?")

    def _has_arrived(self, sent_s: float) -> bool:
        reading = self._link.reading()
        if self._goal_rad is None or not self._is_near(reading.positions_rad, self._goal_rad):
            return False
        if reading.velocities_rad_s is None:
            return self._link.measured.joint_travel_rad(STILL_S, sent_s) < STILL_RAD
        return bool(np.abs(reading.velocities_rad_s).max() < self._settings.motion.rest_rad_s)

    def _is_stuck(self, sent_s: float, duration_s: float) -> bool:
        is_due = time.monotonic() - sent_s > duration_s + STILL_S
        return is_due and self._link.measured.joint_travel_rad(STILL_S, sent_s) < STILL_RAD

    def _is_trembling(self, sent_s: float, duration_s: float) -> bool:
        is_due = time.monotonic() - sent_s > duration_s + TREMBLE_S
        if not is_due or self._link.measured.joint_travel_rad(TREMBLE_S, sent_s) >= TREMBLE_RAD:
            return False
        return self._link.measured.joint_drift_rad(TREMBLE_S, sent_s) < STILL_RAD

    def _is_near(self, joints_rad: np.ndarray, goal_rad: np.ndarray) -> bool:
        return bool(np.abs(joints_rad - goal_rad).max() < self._settings.motion.arrival_rad)

    def _set_gripper(self, aperture_m: float) -> None:
        """Command the fingers, and wait until they have arrived or closed on something."""
        self._has_closed = aperture_m == self._settings.gripper.closed_m
        self._link.grip(aperture_m)
        sent_s = time.monotonic()

        def has_ended() -> bool:
            if abs(self._link.measured.aperture_m() - aperture_m) < STILL_M:
                return True
            is_due = time.monotonic() - sent_s > 2 * STILL_S
            return is_due and self._link.measured.aperture_travel_m(STILL_S, sent_s) < STILL_M

        if not self._link.wait_for(has_ended, timeout_s=self._settings.connect_timeout_s):
            raise ArmError(
                f"arm {self.name}: gripper does not come to rest, last seen at {self._link.measured.aperture_m():.4f} m"
            )
        self._look_from(self._link.reading().stamp_ns)

    def _locate(self, reading: JointReading) -> ToolState:
        pose = self._kinematics.locate_tool(reading.positions_rad)
        return ToolState(pose.x_m, pose.y_m, pose.z_m, pose.yaw_rad, self._link.measured.aperture_m())

    def _look_from(self, stamp_ns: int) -> None:
        self._looked_ns = max(self._looked_ns, stamp_ns)

    def _refuse_if_unfit(self) -> None:
        try:
            self._link.refuse_if_unfit()
        except ArmError as error:
            self._link.report(SafetyEvent.REFUSED, str(error))
            raise

    def _refuse_if_closed(self) -> None:
        if self.is_closed:
            raise ArmStopped(f"arm {self.name}: stopped (closed); make a new one")


def _is_move(action: GraspAction) -> bool:
    return max(map(abs, (*action.displacement_m, action.rotation_rad))) > SMALLEST_MOVE
