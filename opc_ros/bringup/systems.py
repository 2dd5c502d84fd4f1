"""The systems one can bring up by name, from a launch file or with `opc up`: one list for both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.domain import read_domain
from opc_ros.bringup.lab import Lab, load_arm, load_lab, refuse_shared_arms
from opc_ros.bringup.nodes import NodeSpec, Parameter
from opc_ros.bringup.system import Argument, System, read_config, read_folder, read_integer, read_number, read_robots
from opc_ros.bringup.system_arguments import DEPLOYMENT, LAB_ROBOTS, LOOP, POLICY, ROBOTS, STORE, TWIN
from opc_ros.bringup.twin_lab import prepare_people, prepare_twin_lab
from opc_ros.config import load_config
from opc_ros.errors import SetupError
from opc_ros.store.locations import absolute_location

SEEDS_APART = 1_000_000  # each twin has its own stretch of seeds
# One machine that simulates arms, scores and schedules may leave a process waiting for seconds; a real arm's must not.
COMMAND_TIMEOUT_S = 15.0
PATIENCE_WITH_TWINS: Mapping[str, Parameter] = {"heartbeat_s": 15.0, "recorder_timeout_s": 60.0}
GATEWAYS_PATIENCE_WITH_TWINS: Mapping[str, Parameter] = {"silence_s": COMMAND_TIMEOUT_S, "stale_s": 5.0}


MODES = ("deploy", "collect")


def find_system(name: str) -> System:
    for system in SYSTEMS:
        if system.name == name:
            return system
    raise SetupError(f"no system is called {name!r}, expected one of {', '.join(s.name for s in SYSTEMS)}")


def _scripted(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    nodes = []
    for number, robot in enumerate(read_robots(arguments)):
        seed = read_integer(arguments, "seed") + number
        nodes += [
            NodeSpec("recorder", robot, {"store": read_folder(arguments, "store")}),
            NodeSpec("scripted_arm", robot, {"seed": seed, "episodes": read_integer(arguments, "episodes")}),
        ]
    return tuple(nodes)


def _hardware(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    lab = load_lab(read_config(arguments, "lab"))
    real = [name for name, robot in lab.robots.items() if tuple(robot.rungs) != ("twin",)]
    robots = _chosen(arguments, lab, real)
    if arguments["mode"] not in MODES:
        raise SetupError(f"mode:={arguments['mode']}: expected {' or '.join(MODES)}")
    is_collecting = arguments["mode"] == "collect"
    nodes = [] if is_collecting else [*_central_nodes(arguments, lab)]
    for robot in robots:
        nodes += _collecting_side(arguments, lab, robot) if is_collecting else _robot_side(arguments, lab, robot)
        kept = _state(arguments, robot)
        guard: dict[str, Parameter] = {"state": str(kept), "keys": str(kept / "keys")}
        guard["arm_config"] = _arm_file(arguments)
        nodes.append(NodeSpec("arm_guard", robot, guard, environment=_arm_environment(lab, robot)))
        nodes.append(_gateway(arguments, lab, robot))
    return tuple(nodes)


def _twin(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    episodes = read_integer(arguments, "collect")
    lab = load_lab(read_config(arguments, "lab"))
    robots = _chosen(arguments, lab, list(lab.robots))
    nodes = [*_central_nodes(arguments, lab)]
    for number, robot in enumerate(robots):
        nodes += _robot_side(arguments, lab, robot, patience=PATIENCE_WITH_TWINS)
        nodes.append(_twin_arm(arguments, robot, number, _arm_environment(lab, robot)))
        nodes.append(_gateway(arguments, lab, robot, GATEWAYS_PATIENCE_WITH_TWINS))
        if episodes:
            signed: dict[str, Parameter] = {
                "gateway": str(_socket_folder(arguments, robot)),
                "keys": str(Path(read_folder(arguments, "deployment")) / "keys"),
            }
            nodes.append(_behaviour(arguments, robot, number, episodes, signed))
    return tuple(nodes)


def _collect(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    nodes = []
    robots = read_robots(arguments)
    refuse_shared_arms({robot: load_arm(_arm_file(arguments), robot) for robot in robots})
    for number, robot in enumerate(robots):
        nodes += [
            _recorder(arguments, robot, read_folder(arguments, "store")),
            _twin_arm(arguments, robot, number),
            _behaviour(arguments, robot, number, read_integer(arguments, "episodes")),
        ]
    return tuple(nodes)


def chosen_robots(arguments: Mapping[str, str]) -> list[str]:
    """The robots of a twin lab: those given, or all of its lab file."""
    lab = load_lab(read_config(arguments, "lab"))
    return _chosen(arguments, lab, list(lab.robots))


def chosen_store(arguments: Mapping[str, str]) -> str:
    """The validation store: the one given, or the lab file's."""
    return _store(arguments, load_lab(read_config(arguments, "lab")))


def _chosen(arguments: Mapping[str, str], lab: Lab, default: list[str]) -> list[str]:
    robots = read_robots(arguments) if arguments["robots"] else default
    for robot in robots:
        if robot not in lab.robots:
            raise SetupError(f"robot {robot!r} is not in {arguments['lab']}, which has {', '.join(lab.robots)}: add it")
    refuse_shared_arms({robot: load_arm(_arm_file(arguments), robot) for robot in robots})
    return robots


def _arm_file(arguments: Mapping[str, str]) -> str:
    """The arm file given for all robots, or else the lab file, which has one for each."""
    return read_config(arguments, "arm_config" if arguments["arm_config"] else "lab")


def _store(arguments: Mapping[str, str], lab: Lab) -> str:
    return absolute_location(arguments["store"] or lab.store)


def _central_nodes(arguments: Mapping[str, str], lab: Lab) -> tuple[NodeSpec, ...]:
    """What runs once for all robots: who scores, by what the gate asks for, who lends robots, and the live page."""
    from opc_ros.deployment.gate_rules import GateRules

    rules = load_config(Path(read_config(arguments, "gate_config")), GateRules)
    store, candidates = _store(arguments, lab), read_folder(arguments, "candidates")
    scores = Path(read_folder(arguments, "scores"))
    scheduler = {
        "state": read_folder(arguments, "deployment"),
        "rules": read_config(arguments, "scheduler_config"),
        "lab": read_config(arguments, "lab"),
        "gate": read_config(arguments, "gate_config"),
        "ranking": str(scores / "published" / "ranking.json"),
        "store": store,
        "candidates": candidates,
    }
    scorer: dict[str, Parameter] = {"store": store, "candidates": candidates, "scores": str(scores)}
    scorer |= {
        "keys": str(Path(read_folder(arguments, "deployment")) / "keys"),
        "metric": rules.metric,
        "prior": rules.prior,
        **({"top_k": rules.top_k.k} if rules.top_k else {}),
        "rescore_s": read_number(arguments, "rescore_s"),
    }
    nodes = [NodeSpec("scorer", "", scorer), NodeSpec("scheduler", "", scheduler)]
    if port := read_integer(arguments, "console"):
        console: dict[str, Parameter] = {"store": store, "candidates": candidates, "port": port}
        console |= {"scores": str(scores / "published"), "deployment": read_folder(arguments, "deployment")}
        nodes.append(NodeSpec("console", "", console))
    return tuple(nodes)


def _robot_side(
    arguments: Mapping[str, str], lab: Lab, robot: str, patience: Mapping[str, Parameter] | None = None
) -> list[NodeSpec]:
    """What runs for each robot: who records, and who checks permits and runs candidates."""
    state = _state(arguments, robot)
    runner: dict[str, Parameter] = {
        "arm_config": _arm_file(arguments),
        "gateway": str(_socket_folder(arguments, robot)),
        "rungs": ",".join(lab.robots[robot].rungs),
        "keys": str(state / "keys"),
        "state": str(state),
        **(patience or {}),
    }
    recorder = _recorder(arguments, robot, _own_store(arguments, lab, robot), str(state / "keys"))
    return [recorder, NodeSpec("policy_runner", robot, runner)]


def _collecting_side(arguments: Mapping[str, str], lab: Lab, robot: str) -> list[NodeSpec]:
    """What runs for each robot before there is anything to rank: who records, and who plays what a person allows."""
    state = _state(arguments, robot)
    collector: dict[str, Parameter] = {
        "arm_config": _arm_file(arguments),
        "gateway": str(_socket_folder(arguments, robot)),
        "policy": arguments["policy"],
        "state": str(state),
        "keys": str(state / "keys"),
        "judge": arguments["judge"],
        "object_set": arguments["object_set"],
        "episodes": read_integer(arguments, "episodes"),
        "seed": read_integer(arguments, "seed"),
    }
    return [_recorder(arguments, robot, _own_store(arguments, lab, robot)), NodeSpec("collector", robot, collector)]


def _gateway(
    arguments: Mapping[str, str], lab: Lab, robot: str, patience: Mapping[str, Parameter] | None = None
) -> NodeSpec:
    """The one way from the lab's domain to the arm's."""
    state = _state(arguments, robot)
    parameters: dict[str, Parameter] = {
        "arm_config": _arm_file(arguments),
        "arm_domain": lab.arm_domains(read_domain(os.environ))[robot],
        "arm_discovery": lab.robots[robot].arm_discovery,
        "rungs": ",".join(lab.robots[robot].rungs),
        "keys": str(state / "keys"),
        "state": str(state),
        **(patience or {}),
    }
    return NodeSpec("arm_gateway", robot, parameters)


def _arm_environment(lab: Lab, robot: str) -> dict[str, str]:
    """What keeps a driver or guard in the arm's own domain."""
    domain = lab.arm_domains(read_domain(os.environ))[robot]
    discovery = lab.robots[robot].arm_discovery.upper()
    return {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": discovery}


def _socket_folder(arguments: Mapping[str, str], robot: str) -> Path:
    return _state(arguments, robot) / "gateway"


def _state(arguments: Mapping[str, str], robot: str) -> Path:
    return Path(read_folder(arguments, "state")) / robot


def _own_store(arguments: Mapping[str, str], lab: Lab, robot: str) -> str:
    own_store = "" if arguments["store"] else lab.robots[robot].store
    return absolute_location(own_store) if own_store else _store(arguments, lab)


def _recorder(arguments: Mapping[str, str], robot: str, store: str, keys: str = "") -> NodeSpec:
    """It looks through the same camera as whoever drives the arm, and goes by the same gripper widths."""
    arm: ArmSettings = load_arm(_arm_file(arguments), robot).with_full_names()
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
    """Where a twin and whoever drives it find the people who may release it: at the robot, or at the lab's keys."""
    if "state" in arguments:
        return str(_state(arguments, robot) / "keys")
    return str(Path(read_folder(arguments, "deployment")) / "keys")


def _twin_arm(
    arguments: Mapping[str, str], robot: str, number: int, environment: Mapping[str, str] | None = None
) -> NodeSpec:
    parameters: dict[str, Parameter] = {
        "arm_config": _arm_file(arguments),
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


def _behaviour(
    arguments: Mapping[str, str], robot: str, number: int, episodes: int, more: Mapping[str, Parameter] | None = None
) -> NodeSpec:
    """Who drives an arm while there is no candidate to drive it."""
    parameters: dict[str, Parameter] = {
        "arm_config": _arm_file(arguments),
        "world": arguments["world"],
        "policy": arguments["policy"],
        "seed": read_integer(arguments, "seed") + SEEDS_APART * number,
        "episodes": episodes,
        "recorder_timeout_s": PATIENCE_WITH_TWINS["recorder_timeout_s"],
        "keys": _people(arguments, robot),
        **(more or {}),
    }
    return NodeSpec("behaviour", robot, parameters)


SYSTEMS: tuple[System, ...] = (
    System(
        name="scripted",
        summary="A fake arm without physics and a recorder, for each robot: to see that a machine works.",
        arguments=(
            ROBOTS,
            STORE,
            Argument("seed", "0", "seed of the first robot; the next ones count up from it"),
            Argument("episodes", "0", "how many episodes each arm plays; 0: until stopped"),
        ),
        build=_scripted,
    ),
    System(
        name="collect",
        summary="A twin behind driver topics, recorder and behaviour policy for each robot: to collect through ROS.",
        arguments=(
            ROBOTS,
            STORE,
            DEPLOYMENT,
            *TWIN,
            POLICY,
            Argument("episodes", "0", "how many episodes each arm plays; 0: until stopped"),
            Argument("arm_config", "arm_twin.yaml", "how the arm is reached: a path, or a file of config/"),
        ),
        build=_collect,
        make_files=prepare_people,
    ),
    System(
        name="hardware",
        summary="Recorder, arm guard and policy runner (or collector) for each real arm; scorer and scheduler once.",
        arguments=(
            Argument("lab", "lab.yaml", "robots, arms, cameras, rungs and stores: a path, or a file of config/"),
            LAB_ROBOTS,
            Argument("mode", "deploy", "deploy: candidates play under permits; collect: a behaviour policy does"),
            Argument("policy", "blind_grasps", "mode collect: blind_grasps, teleoperation or service:NAME"),
            Argument("judge", "images", "mode collect: who labels, of images (and gripper), gripper and person"),
            Argument("object_set", "", "mode collect: what lies in the bin"),
            Argument("episodes", "0", "mode collect: how many on each arm; 0: as many as the permit allows"),
            Argument("seed", "0", "mode collect: of the first episode"),
            *LOOP,
            Argument("gate_config", "gate.yaml", "rules of the gate: a path, or a file of config/"),
            Argument("scheduler_config", "scheduler.yaml", "rules of the scheduler: a path, or a file of config/"),
            Argument("arm_config", "", "one arm file for all robots; empty: as the lab file says"),
        ),
        build=_hardware,
    ),
    System(
        name="twin",
        summary="The same with a twin behind driver topics for each arm; folders and keys it needs are created.",
        arguments=(
            Argument("lab", "lab_twin.yaml", "robots, arms, cameras, rungs and stores: a path, or a file of config/"),
            LAB_ROBOTS,
            *LOOP,
            Argument("collect", "0", "how many episodes a behaviour policy plays on each arm first"),
            POLICY,
            Argument("gate_config", "gate_demo.yaml", "rules of the gate: a path, or a file of config/"),
            Argument("scheduler_config", "scheduler_twin.yaml", "rules of the scheduler: a path, or a file of config/"),
            Argument("arm_config", "", "one arm file for all robots; empty: as the lab file says"),
            *TWIN,
        ),
        build=_twin,
        make_files=lambda arguments: prepare_twin_lab(
            arguments, chosen_robots(arguments), Path(chosen_store(arguments))
        ),
    ),
)
