"""Which node publishes, subscribes to, offers and calls what: the one list of our ROS names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.lab_names import in_lab

_DOMAIN_WIDE = ("/rosout", "/parameter_events", "/clock")  # ROS's own names, shared by all labs in a domain
# Every node has these; "~" is the node's own name.
_PARAMETERS = (
    *("~/describe_parameters", "~/get_parameter_types", "~/get_parameters", "~/list_parameters"),
    *("~/set_parameters", "~/set_parameters_atomically", "~/get_type_description"),
)
_LIFECYCLE = (
    *("~/change_state", "~/get_state", "~/get_available_states", "~/get_available_transitions"),
    "~/get_transition_graph",
)
_BUTTONS = ("begin", "discard", "end", "failure", "last_failed", "last_succeeded", "success")


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """One node; names without a leading slash are below its namespace, and `~/` is below its own name."""

    program: str  # the process that contains it
    name: str
    namespace: str = ""  # without leading and trailing slashes; empty: the root
    publishes: tuple[str, ...] = ()
    hears: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()  # services
    calls: tuple[str, ...] = ()  # services
    executes: tuple[str, ...] = ()  # actions
    asks: tuple[str, ...] = ()  # actions

    def with_common(self) -> NodeGraph:
        """The same node with what every node has."""
        return replace(
            self,
            publishes=("/rosout", "/parameter_events", "/diagnostics", "~/transition_event", *self.publishes),
            hears=("/parameter_events", "/clock", *self.hears),
            offers=(*_PARAMETERS, *_LIFECYCLE, *self.offers),
        )

    @property
    def full_name(self) -> str:
        return f"/{self.namespace}/{self.name}".replace("//", "/")

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """Full names, without duplicates."""
        above = f"/{self.namespace}/" if self.namespace else "/"
        full = (
            name if name.startswith("/") else f"{self.full_name}/{name[2:]}" if name.startswith("~/") else above + name
            for name in names
        )
        return tuple(dict.fromkeys(full))


def lab_graph(arms: Mapping[str, ArmSettings], namespace: str = "") -> tuple[NodeGraph, ...]:
    """Every node of a lab with these robots, in its namespace, as if all its options were used."""
    nodes = [_move(node.with_common(), namespace, ()) for node in _central(tuple(arms))]
    for robot, arm in arms.items():
        named = arm.with_full_names()
        nodes += [_move(node.with_common(), namespace, _drivers_names(named)) for node in _robot(robot, named)]
    return tuple(nodes)


def _drivers_names(arm: ArmSettings) -> tuple[str, ...]:
    """Names that the arm file gives in full, which the lab's namespace must not change."""
    gripper = arm.gripper
    named = (arm.joint_states, arm.controller, arm.lay_out, arm.guard, gripper.command, gripper.state, arm.camera.topic)
    return tuple(name for name in named if name.startswith("/"))


def _move(node: NodeGraph, namespace: str, kept: tuple[str, ...]) -> NodeGraph:
    def moved(names: tuple[str, ...]) -> tuple[str, ...]:
        stays = (*_DOMAIN_WIDE, *kept)
        is_labs = (name.startswith("/") and not name.startswith(stays) for name in names)
        return tuple(in_lab(name, namespace) if ours else name for name, ours in zip(names, is_labs, strict=True))

    return replace(
        node,
        namespace=in_lab(node.namespace, namespace).rstrip("/"),
        publishes=moved(node.publishes),
        hears=moved(node.hears),
        offers=moved(node.offers),
        calls=moved(node.calls),
        executes=moved(node.executes),
        asks=moved(node.asks),
    )


def _central(robots: Sequence[str]) -> tuple[NodeGraph, ...]:
    def each(*topics: str) -> tuple[str, ...]:
        return tuple(f"/{robot}/{topic}" for robot in robots for topic in topics)

    status = ("/deployment/status", "/deployment/statement")
    seen = each(
        *("robot/status", "recorder/status", "behaviour/status", "twin/status", "arm_guard/status"),
        *("episode/summary", "safety/event", "camera/image/compressed"),
    )
    stops = each("stop", "release", "stop_id")
    return (
        NodeGraph(
            "scheduler",
            "scheduler",
            publishes=("/deployment/heartbeat", "/deployment/revocations"),
            hears=("/ranking", *each("robot/status", "safety/event")),
            offers=status,
            asks=each("run_episodes"),
        ),
        NodeGraph("scheduler", "scheduler_halt", publishes=("/deployment/revocations",), offers=("/deployment/halt",)),
        NodeGraph(
            "scorer",
            "scorer",
            publishes=("/ranking",),
            offers=("/register_candidate",),
            executes=("/score_candidates",),
        ),
        NodeGraph("depot", "depot"),
        NodeGraph(
            "console",
            "console",
            publishes=stops,
            hears=("/ranking", *seen, *each("stop_id")),
            calls=("/deployment/halt", *status),
        ),
        NodeGraph("notifier", "notifier", hears=each("safety/event"), calls=status),
        # Commands of people at a terminal.
        NodeGraph("opc", "stop_call", publishes=stops, hears=(*seen, *stops)),
        NodeGraph("opc", "halt", publishes=("/deployment/revocations",), hears=each("robot/status")),
        NodeGraph(
            "opc",
            "lab_client",
            calls=("/register_candidate", "/deployment/halt", *status),
            asks=("/score_candidates",),
        ),
        NodeGraph("opc", "opc_discovery"),
    )


def _robot(robot: str, arm: ArmSettings) -> tuple[NodeGraph, ...]:
    episodes = ("episode/event", "grasp/action", "grasp/step")
    recorder = ("episode/summary", "recorder/status")
    stops = ("stop", "release", "stop_id")
    measured = (arm.joint_states, arm.gripper.state, arm.camera.topic)
    guard = arm.guard or "arm_guard/status"
    shown = ("camera/camera_info", "robot_description", "/tf", "/tf_static")
    told = (*measured, *shown, "safety/event", "twin/status", guard)
    trajectory, action = f"{arm.controller}/joint_trajectory", f"{arm.controller}/follow_joint_trajectory"
    is_action = arm.gripper.driver in ("gripper_command", "parallel_gripper_command")
    gripper_topics, gripper_actions = ((), (arm.gripper.command,)) if is_action else ((arm.gripper.command,), ())
    commands = (trajectory, "heartbeat", *gripper_topics)

    def link(program: str) -> NodeGraph:
        hears = (*measured, guard, "episode/event", *stops)
        return NodeGraph(program, "arm", robot, ("safety/event", "stop", "stop_id"), hears, offers=("~/stop",))

    return (
        NodeGraph(
            "recorder",
            "recorder",
            robot,
            publishes=recorder,
            hears=(*measured, "camera/camera_info", "/tf_static", "episode/event", "episode/label", "grasp/step"),
            offers=(
                *(f"recorder/{name}" for name in ("begin", "discard", "end", "label")),
                *(f"recorder/button/{name}" for name in _BUTTONS),
            ),
        ),
        NodeGraph("courier", "courier", robot),
        NodeGraph(
            "policy_runner",
            "policy_runner",
            robot,
            publishes=(*episodes, "robot/status", "safety/event", "stop_id"),
            hears=(*recorder, *stops, "/deployment/heartbeat", "/deployment/revocations"),
            executes=("run_episodes",),
        ),
        link("policy_runner"),
        *(
            node
            for program in ("behaviour", "collector")
            for node in (
                NodeGraph(
                    program,
                    program,
                    robot,
                    publishes=(*episodes, "behaviour/status"),
                    hears=(*recorder, "robot/status", *(("joy", "twist") if program == "collector" else ())),
                ),
                link(program),
            )
        ),
        # In both domains; it publishes commands only in the arm's own.
        NodeGraph(
            "arm_gateway",
            "arm_gateway",
            robot,
            publishes=(*told, *commands, *stops, "episode/event"),
            hears=(*told, *commands, *stops, "episode/event", "/deployment/revocations", "/diagnostics"),
            offers=("~/stop",),
            calls=(arm.lay_out or "lay_out",),
            asks=(action, *gripper_actions),
        ),
        NodeGraph(
            "arm_guard",
            "arm_guard",
            robot,
            publishes=(trajectory, "safety/event", "stop", "stop_id", "~/status"),
            hears=(arm.joint_states, "heartbeat", "episode/event", *stops),
            offers=("~/stop",),
        ),
        NodeGraph(
            "twin",
            "twin",
            robot,
            publishes=(*told, "stop", "stop_id", "/clock"),
            hears=(*commands, "episode/event", *stops),
            offers=("~/stop", "lay_out"),
            executes=(action, *gripper_actions),
        ),
    )
