"""Players on the other side of ROS: a person with a gamepad or a 3D mouse, and a policy behind a service."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from geometry_msgs.msg import TwistStamped
from opc_interfaces.srv import ChooseAction
from rclpy.node import Node
from sensor_msgs.msg import Joy

from opc_ros.behaviour.teleoperation import Gamepad, StickLayout, Teleoperation, TeleoperationSettings
from opc_ros.episode import Frame
from opc_ros.errors import EpisodeStopped, SetupError
from opc_ros.grasp import GraspAction, Observation
from opc_ros.ros import convert

_PULSE_S = 0.05


def connect_person(
    node: Node,
    held: ExitStack,
    layout: StickLayout,
    settings: TeleoperationSettings,
    why_to_stop: Callable[[], str | None],
    *,
    joy_topic: str,
    twist_topic: str,
) -> Teleoperation:
    """A player that subscribes to a joystick and a 3D mouse, on one topic each; either may be absent."""
    person = Teleoperation(settings, why_to_stop=why_to_stop)
    pad = Gamepad(person, layout, settings)

    def on_joy(msg: Joy) -> None:
        # A 3D mouse publishes its motion as a twist; only its buttons come here.
        if node.count_publishers(twist_topic):
            pad.hear_buttons(msg.buttons)
        else:
            pad.hear(msg.axes, msg.buttons)

    def on_twist(msg: TwistStamped) -> None:
        linear, angular = msg.twist.linear, msg.twist.angular
        person.steer((linear.x, linear.y, linear.z, angular.z))

    for kind, topic, hear in ((Joy, joy_topic, on_joy), (TwistStamped, twist_topic, on_twist)):
        held.callback(node.destroy_subscription, node.create_subscription(kind, topic, hear, 10))
    return person


class ServicePlayer:
    """Asks a service of type opc_interfaces/ChooseAction for every action."""

    def __init__(
        self,
        node: Node,
        service: str,
        robot: str,
        why_to_stop: Callable[[], str | None],
        *,
        timeout_s: float,
        episode_id: Callable[[], str] = lambda: "",
    ) -> None:
        self._client = node.create_client(ChooseAction, service)
        self._service, self._robot = service, robot
        self._why_to_stop = why_to_stop
        self._timeout_s = timeout_s
        self._episode_id = episode_id
        self._seed, self._step = 0, 0
        self._node = node

    @property
    def name(self) -> str:
        return self._service.strip("/").replace("/", ".")

    def close(self) -> None:
        self._node.destroy_client(self._client)

    def begin(self, seed: int) -> None:
        self._seed, self._step = seed, 0
        if not self._client.wait_for_service(timeout_sec=self._timeout_s):
            raise SetupError(
                f"no service {self._client.srv_name} within {self._timeout_s:g} s: start your policy first"
            )

    def choose(self, observation: Observation) -> GraspAction:
        request = ChooseAction.Request(
            robot=self._robot,
            episode_id=self._episode_id(),
            seed=self._seed,
            step=self._step,
            image_stamp=convert.stamp_from_ns(observation.stamp_ns),
            image=Frame.from_image(observation.image, observation.stamp_ns).data,
            tool=convert.tool_to_msg(observation.tool, observation.stamp_ns),
        )
        self._step += 1
        done = threading.Event()
        future = self._client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        waited_s = 0.0
        while not done.wait(_PULSE_S):
            waited_s += _PULSE_S
            if reason := self._why_to_stop():
                raise EpisodeStopped(reason)
            if waited_s > self._timeout_s:
                raise EpisodeStopped(f"service {self._client.srv_name} did not answer within {self._timeout_s:g} s")
        answer = future.result()
        if not answer.success:
            raise EpisodeStopped(f"service {self._client.srv_name}: {answer.message or 'gave no reason'}")
        return convert.action_from_msg(answer.action)
