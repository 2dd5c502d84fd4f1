"""The nodes of one robot: which programs, with which parameters and in which ROS domain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.domain import read_domain
from opc_ros.bringup.lab import Lab, load_arm
from opc_ros.bringup.machines import Here
from opc_ros.bringup.nodes import NodeSpec, Parameter
from opc_ros.bringup.reach import PEERS, RANGE, stay_on_this_machine
from opc_ros.bringup.system import read_config, read_folder, read_integer, read_number
from opc_ros.store.locations import absolute_location
from opc_ros.store.object_blobs import is_bucket

SEEDS_APART = 1_000_000  # each twin has its own range of seeds
# A machine that simulates arms, scores and schedules may delay a process for seconds; a real arm's machine must not.
COMMAND_TIMEOUT_S = 15.0
PATIENCE_WITH_TWINS: Mapping[str, Parameter] = {"heartbeat_s": 15.0, "recorder_timeout_s": 60.0}
GATEWAYS_PATIENCE_WITH_TWINS: Mapping[str, Parameter] = {"silence_s": COMMAND_TIMEOUT_S, "stale_s": 5.0}


def find_arm_file(arguments: Mapping[str, str]) -> str:
    """The arm file given for all robots, or else the lab file, which has one for each."""
    return read_config(arguments, "arm_config" if arguments["arm_config"] else "lab")


def lab_store(arguments: Mapping[str, str], lab: Lab) -> str:
    return absolute_location(arguments["store"] or lab.store)


def build_robot_side(
    arguments: Mapping[str, str], lab: Lab, here: Here, robot: str, patience: Mapping[str, Parameter] | None = None
) -> list[NodeSpec]:
    """The nodes of each robot: recorder, and policy runner with its own check of permits."""
    state = state_folder(arguments, robot)
    runner: dict[str, Parameter] = {
        "arm_config": find_arm_file(arguments),
        "gateway": str(socket_folder(arguments, robot)),
        "rungs": ",".join(lab.robots[robot].rungs),
        "keys": str(state / "keys"),
        "state": str(state),
        **({"depot": here.depot} if here.depot else {}),
        **(patience or {}),
    }
    return [*_recording(arguments, lab, here, robot, str(state / "keys")), NodeSpec("policy_runner", robot, runner)]


def build_collecting_side(arguments: Mapping[str, str], lab: Lab, here: Here, robot: str) -> list[NodeSpec]:
    """The nodes of each robot before there is anything to rank: recorder and collector."""
    state = state_folder(arguments, robot)
    collector: dict[str, Parameter] = {
        "arm_config": find_arm_file(arguments),
        "gateway": str(socket_folder(arguments, robot)),
        "policy": arguments["policy"],
        "state": str(state),
        "keys": str(state / "keys"),
        "judge": arguments["judge"],
        "object_set": arguments["object_set"],
        "episodes": read_integer(arguments, "episodes"),
        "seed": read_integer(arguments, "seed"),
    }
    return [*_recording(arguments, lab, here, robot), NodeSpec("collector", robot, collector)]


def _recording(arguments: Mapping[str, str], lab: Lab, here: Here, robot: str, keys: str = "") -> list[NodeSpec]:
    """The recorder and, if it does not write to the lab's disk, the courier."""
    store = _own_store(arguments, lab, here, robot)
    nodes = [build_recorder(arguments, robot, store, keys)]
    if here.depot and not is_bucket(store):
        state = state_folder(arguments, robot)
        courier: dict[str, Parameter] = {"store": store, "depot": here.depot}
        nodes.append(NodeSpec("courier", robot, courier | {"keys": str(state / "keys"), "state": str(state)}))
    return nodes


def build_gateway(
    arguments: Mapping[str, str], lab: Lab, robot: str, patience: Mapping[str, Parameter] | None = None
) -> NodeSpec:
    """The only way from the lab's domain to the arm's."""
    state = state_folder(arguments, robot)
    parameters: dict[str, Parameter] = {
        "arm_config": find_arm_file(arguments),
        "arm_domain": lab.arm_domains(read_domain(os.environ), arguments["namespace"])[robot],
        "arm_discovery": lab.robots[robot].arm_discovery,
        "rungs": ",".join(lab.robots[robot].rungs),
        "keys": str(state / "keys"),
        "state": str(state),
        **(patience or {}),
    }
    return NodeSpec("arm_gateway", robot, parameters)


def arm_environment(arguments: Mapping[str, str], lab: Lab, robot: str) -> dict[str, str]:
    """Keeps a driver or guard in the arm's own domain, away from the lab's other machines."""
    domain = lab.arm_domains(read_domain(os.environ), arguments["namespace"])[robot]
    discovery = lab.robots[robot].arm_discovery
    reach = stay_on_this_machine() if discovery == "localhost" else {RANGE: discovery.upper()}
    return {"ROS_DOMAIN_ID": str(domain), **reach, **({PEERS: ""} if lab.machines else {})}


def socket_folder(arguments: Mapping[str, str], robot: str) -> Path:
    return state_folder(arguments, robot) / "gateway"


def state_folder(arguments: Mapping[str, str], robot: str) -> Path:
    return Path(read_folder(arguments, "state")) / robot


def _own_store(arguments: Mapping[str, str], lab: Lab, here: Here, robot: str) -> str:
    own_store = "" if arguments["store"] else lab.robots[robot].store
    if here.depot and not own_store and not arguments["store"] and not is_bucket(lab.store):
        return str(state_folder(arguments, robot) / "store")
    return absolute_location(own_store) if own_store else lab_store(arguments, lab)


def build_recorder(arguments: Mapping[str, str], robot: str, store: str, keys: str = "") -> NodeSpec:
    """The recorder uses the same camera and gripper widths as the node that drives the arm."""
    arm: ArmSettings = load_arm(find_arm_file(arguments), robot, arguments["namespace"]).with_full_names()
    parameters: dict[str, Parameter] = {
        "store": store,
        "keys": keys,
        "image_topic": arm.camera.topic,
        "image_kind": "compressed" if arm.camera.is_compressed else "raw",
        "joint_topic": arm.joint_states,
        "held_from_m": arm.gripper.held_from_m,
        "held_to_m": arm.gripper.held_to_m,
    }
    return NodeSpec("recorder", robot, parameters)


def _people(arguments: Mapping[str, str], robot: str) -> str:
    """The keys folder that says who may release the arm: the robot's own, or the lab's."""
    if "state" in arguments:
        return str(state_folder(arguments, robot) / "keys")
    return str(Path(read_folder(arguments, "deployment")) / "keys")


def build_twin_arm(
    arguments: Mapping[str, str], robot: str, number: int, environment: Mapping[str, str] | None = None
) -> NodeSpec:
    parameters: dict[str, Parameter] = {
        "arm_config": find_arm_file(arguments),
        "world": arguments["world"],
        "seed": read_integer(arguments, "seed") + SEEDS_APART * number,
        "image_size": read_integer(arguments, "image_size"),
        "real_time_factor": read_number(arguments, "real_time_factor"),
        "camera_hz": read_number(arguments, "camera_hz"),
        "joint_state_hz": read_number(arguments, "joint_state_hz"),
        "command_timeout_s": COMMAND_TIMEOUT_S,
        "keys": _people(arguments, robot),
    }
    return NodeSpec("twin", robot, parameters, environment=environment or {})


def build_behaviour(
    arguments: Mapping[str, str], robot: str, number: int, episodes: int, more: Mapping[str, Parameter] | None = None
) -> NodeSpec:
    """The node that drives an arm while no candidate does."""
    parameters: dict[str, Parameter] = {
        "arm_config": find_arm_file(arguments),
        "world": arguments["world"],
        "policy": arguments["policy"],
        "seed": read_integer(arguments, "seed") + SEEDS_APART * number,
        "episodes": episodes,
        "recorder_timeout_s": PATIENCE_WITH_TWINS["recorder_timeout_s"],
        "keys": _people(arguments, robot),
        **(more or {}),
    }
    return NodeSpec("behaviour", robot, parameters)
