"""Our nodes, and how to start one of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

# Program name, as used by `ros2 run opc_ros <program>` and launch files -> module with a main().
PROGRAMS: Mapping[str, str] = {
    "arm_gateway": "opc_ros.ros.arm_gateway_node",
    "arm_guard": "opc_ros.ros.arm_guard_node",
    "behaviour": "sim_bridge.behaviour_node",
    "collector": "opc_ros.ros.collector_node",
    "console": "opc_ros.ros.console_node",
    "courier": "opc_ros.ros.courier_node",
    "depot": "opc_ros.ros.depot_node",
    "notifier": "opc_ros.ros.notifier_node",
    "policy_runner": "opc_ros.ros.policy_runner_node",
    "recorder": "opc_ros.ros.recorder_node",
    "scheduler": "opc_ros.ros.scheduler_node",
    "scorer": "opc_ros.ros.scorer_node",
    "scripted_arm": "opc_ros.ros.scripted_arm_node",
    "twin": "sim_bridge.twin_node",
}

# Restarted when they die, because whatever waits for them is safe without them: without a guard's status, nothing moves
# its arm. None of these moves an arm by itself: a restarted gateway has no lease.
RESTARTED: frozenset[str] = frozenset(
    {"arm_gateway", "arm_guard", "courier", "depot", "recorder", "scheduler", "scorer"}
)

# These only serve the nodes that play; once those have finished, there is nothing left for these to do.
SERVANTS: frozenset[str] = frozenset({"arm_gateway", "arm_guard", "courier", "recorder", "twin"})

Parameter = bool | int | float | str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node to start: which program, where on the graph, with which parameters."""

    program: str
    namespace: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    remappings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)  # in addition to the caller's
    params_file: str = ""  # ROS parameter file; its values for this node override `parameters`
    log_level: str = ""  # empty: ROS's own default

    def __post_init__(self) -> None:
        if self.program not in PROGRAMS:
            raise ValueError(f"program {self.program!r}, expected one of {', '.join(PROGRAMS)}")

    @property
    def label(self) -> str:
        """The prefix of this node's log lines: `arm1/recorder`."""
        return f"{self.namespace.strip('/')}/{self.program}".lstrip("/")

    def command(self) -> list[str]:
        """The command line that starts it with this Python, if there is no `launch`."""
        arguments = []
        for old, new in self.remappings.items():
            arguments += ["--remap", f"{old}:={new}"]
        if self.namespace:
            arguments += ["--remap", f"__ns:=/{self.namespace.strip('/')}"]
        for name, value in self.parameters.items():
            arguments += ["--param", f"{name}:={json.dumps(value)}"]
        if self.params_file:
            arguments += ["--params-file", self.params_file]
        if self.log_level:
            arguments += ["--log-level", self.log_level]
        ros_arguments = ["--ros-args", *arguments] if arguments else []
        return [sys.executable, "-u", "-m", PROGRAMS[self.program], *ros_arguments]
