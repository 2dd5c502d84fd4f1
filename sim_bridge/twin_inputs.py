"""The twin's command inputs: the topics and actions that drivers of arms and grippers offer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import ArmError
from opc_ros.ros.joint_messages import trajectory_from_msg
from sim_bridge.driver import DriverState, TwinDriver


class TwinInputs:
    """Accepts trajectories and gripper commands from any sender; `refuse` is called for rejected ones."""

    def __init__(self, node: Node, driver: TwinDriver, arm: ArmSettings, refuse: Callable[[str], None]) -> None:
        self._node, self._driver, self._arm, self._refuse = node, driver, arm, refuse
        self._held = ExitStack()
        self._goal: Any = None  # a FollowJointTrajectory goal, until the arm has arrived
        self._listen(JointTrajectory, f"{arm.controller}/joint_trajectory", self._on_trajectory)
        self._offer_gripper()
        try:
            from control_msgs.action import FollowJointTrajectory
        except ImportError:
            return  # without control_msgs nobody could send such a goal
        self._kind = FollowJointTrajectory
        self._serve(
            FollowJointTrajectory,
            f"{arm.controller}/follow_joint_trajectory",
            execute=self._finish_goal,
            accept=self._accept_goal,
        )

    def close(self) -> None:
        self._held.close()

    def look(self) -> None:
        """Finish the current goal once its motion has ended."""
        if self._goal is not None and self._driver.state is not DriverState.MOVING:
            goal, self._goal = self._goal, None
            goal.execute()

    def _offer_gripper(self) -> None:
        gripper = self._arm.gripper
        if gripper.driver == "float64":
            self._listen(Float64, gripper.command, lambda msg: self._grip(msg.data))
        elif gripper.driver == "trajectory":
            self._listen(JointTrajectory, gripper.command, lambda msg: self._grip(msg.points[-1].positions[0]))
        else:
            from control_msgs.action import GripperCommand, ParallelGripperCommand

            is_parallel = gripper.driver == "parallel_gripper_command"
            kind = ParallelGripperCommand if is_parallel else GripperCommand

            def execute(goal: Any) -> Any:
                command = goal.request.command
                self._grip(command.position[0] if is_parallel else command.position)
                goal.succeed()
                if not is_parallel:
                    return kind.Result(position=command.position, reached_goal=True)
                state = JointState(name=command.name, position=command.position)
                return kind.Result(state=state, reached_goal=True)

            self._serve(kind, gripper.command, execute=execute)

    def _listen(self, kind: type, topic: str, callback: Callable[[Any], None]) -> None:
        self._held.callback(self._node.destroy_subscription, self._node.create_subscription(kind, topic, callback, 10))

    def _serve(self, kind: Any, name: str, **callbacks: Callable[[Any], Any]) -> None:
        extra = {"handle_accepted_callback": callbacks["accept"]} if "accept" in callbacks else {}
        server = ActionServer(
            self._node,
            kind,
            name,
            execute_callback=callbacks["execute"],
            goal_callback=lambda _: GoalResponse.ACCEPT,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
            **extra,
        )
        self._held.callback(server.destroy)

    def _on_trajectory(self, msg: JointTrajectory) -> None:
        self._attempt(lambda: self._driver.follow(trajectory_from_msg(msg, self._arm.joint_names)))

    def _accept_goal(self, goal: Any) -> None:
        """A new goal takes over; the previous one ends where it is."""
        before, self._goal = self._goal, goal
        if before is not None:
            before.execute()
        self._on_trajectory(goal.request.trajectory)

    def _finish_goal(self, goal: Any) -> Any:
        wanted = goal.request.trajectory
        goal_rad = trajectory_from_msg(wanted, self._arm.joint_names).goal_rad
        if goal.is_cancel_requested:
            self._driver.hold()
            goal.canceled()
        elif self._driver.is_sent_to(goal_rad):
            goal.succeed()
            return self._kind.Result(error_code=self._kind.Result.SUCCESSFUL)
        else:
            goal.abort()
        return self._kind.Result(
            error_code=self._kind.Result.GOAL_TOLERANCE_VIOLATED, error_string="the arm was led elsewhere or held"
        )

    def _grip(self, opening: float) -> None:
        self._attempt(lambda: self._driver.grip(opening * self._arm.gripper.metres_per_unit))

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ArmError as error:
            self._refuse(str(error))
