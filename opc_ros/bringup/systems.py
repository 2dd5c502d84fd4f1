"""The systems that can be started by name, from a launch file or with `opc up`: one list for both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from opc_ros.bringup.lab import Lab, load_arm, load_lab, refuse_shared_arms
from opc_ros.bringup.machines import Here, find_here
from opc_ros.bringup.nodes import NodeSpec, Parameter
from opc_ros.bringup.robot_nodes import (
    GATEWAYS_PATIENCE_WITH_TWINS,
    PATIENCE_WITH_TWINS,
    arm_environment,
    build_behaviour,
    build_collecting_side,
    build_gateway,
    build_recorder,
    build_robot_side,
    build_twin_arm,
    find_arm_file,
    lab_store,
    socket_folder,
    state_folder,
)
from opc_ros.bringup.system import (
    Argument,
    System,
    read_config,
    read_folder,
    read_integer,
    read_number,
    read_robots,
    read_switch,
)
from opc_ros.bringup.system_arguments import (
    DEPLOYMENT,
    LAB_ROBOTS,
    LOOP,
    MACHINE,
    NODE_OPTIONS,
    POLICY,
    ROBOTS,
    STORE,
    TWIN,
    lab_file,
    rule_files,
)
from opc_ros.bringup.twin_lab import prepare_people, prepare_twin_lab
from opc_ros.config import load_config
from opc_ros.errors import SetupError

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
    here = find_here(lab, arguments["machine"])
    robots = _chosen(arguments, lab, here, real)
    if arguments["mode"] not in MODES:
        raise SetupError(f"mode:={arguments['mode']}: expected {' or '.join(MODES)}")
    is_collecting = arguments["mode"] == "collect"
    nodes = _depot(arguments, lab, here) if is_collecting else _central_nodes(arguments, lab, here)
    for robot in robots:
        build_side = build_collecting_side if is_collecting else build_robot_side
        nodes += build_side(arguments, lab, here, robot)
        kept = state_folder(arguments, robot)
        guard: dict[str, Parameter] = {"state": str(kept), "keys": str(kept / "keys")}
        guard["arm_config"] = find_arm_file(arguments)
        nodes.append(NodeSpec("arm_guard", robot, guard, environment=arm_environment(arguments, lab, robot)))
        nodes.append(build_gateway(arguments, lab, robot))
    return _among_machines(nodes, here)


def _twin(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    episodes = read_integer(arguments, "collect")
    lab = load_lab(read_config(arguments, "lab"))
    here = find_here(lab, arguments["machine"])
    robots = _chosen(arguments, lab, here, list(lab.robots))
    numbers = {robot: number for number, robot in enumerate(lab.robots if lab.machines else robots)}
    nodes = _central_nodes(arguments, lab, here)
    for robot in robots:
        number = numbers[robot]
        nodes += build_robot_side(arguments, lab, here, robot, patience=PATIENCE_WITH_TWINS)
        nodes.append(build_twin_arm(arguments, robot, number, arm_environment(arguments, lab, robot)))
        nodes.append(build_gateway(arguments, lab, robot, GATEWAYS_PATIENCE_WITH_TWINS))
        if episodes:
            signed: dict[str, Parameter] = {
                "gateway": str(socket_folder(arguments, robot)),
                "keys": str(Path(read_folder(arguments, "deployment")) / "keys"),
            }
            nodes.append(build_behaviour(arguments, robot, number, episodes, signed))
    return _among_machines(nodes, here)


def _collect(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    nodes = []
    robots = read_robots(arguments)
    _refuse_shared_arms(arguments, robots)
    time: dict[str, Parameter] = {}
    if read_switch(arguments, "clock"):
        if len(robots) > 1:
            raise SetupError(f"clock:=true with {len(robots)} robots: a ROS domain has one /clock, so give one robot")
        time = {"use_sim_time": True}
    for number, robot in enumerate(robots):
        episodes = read_integer(arguments, "episodes")
        recorder = build_recorder(arguments, robot, read_folder(arguments, "store"))
        twin, behaviour = build_twin_arm(arguments, robot, number), build_behaviour(arguments, robot, number, episodes)
        clock: dict[str, Parameter] = {"publish_clock": True} if time else {}
        nodes += [
            dataclasses.replace(node, parameters={**node.parameters, **time, **more})
            for node, more in ((recorder, {}), (twin, clock), (behaviour, {}))
        ]
    return tuple(nodes)


def _prepare_twins(arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Create folders and keys of the whole lab where its scheduler runs; from there a robot's own go to its machine."""
    lab = load_lab(read_config(arguments, "lab"))
    here = find_here(lab, arguments["machine"])
    if not here.is_central:
        return here.advice
    robots = list(lab.robots) if lab.machines else _chosen(arguments, lab, here, list(lab.robots))
    return (*prepare_twin_lab(arguments, robots, Path(lab_store(arguments, lab))), *here.advice)


def _prepare_hardware(arguments: Mapping[str, str]) -> tuple[str, ...]:
    return find_here(load_lab(read_config(arguments, "lab")), arguments["machine"]).advice


def _chosen(arguments: Mapping[str, str], lab: Lab, here: Here, default: list[str]) -> list[str]:
    """The selected robots of this machine; selecting one of another machine is an error."""
    robots = read_robots(arguments) if arguments["robots"] else [robot for robot in default if robot in here.robots]
    for robot in robots:
        if robot not in lab.robots:
            raise SetupError(f"robot {robot!r} is not in {arguments['lab']}, which has {', '.join(lab.robots)}: add it")
        if robot not in here.robots:
            raise SetupError(f"robot {robot!r} is of machine {lab.machine_of(robot)}, and this is {here.name}")
    _refuse_shared_arms(arguments, robots)
    return robots


def _refuse_shared_arms(arguments: Mapping[str, str], robots: list[str]) -> None:
    file, namespace = find_arm_file(arguments), arguments["namespace"]
    refuse_shared_arms({robot: load_arm(file, robot, namespace) for robot in robots}, namespace)


def _among_machines(nodes: list[NodeSpec], here: Here) -> tuple[NodeSpec, ...]:
    """Let nodes find those of other machines; nodes in an arm's own domain override this themselves."""
    return tuple(dataclasses.replace(node, environment={**here.environment, **node.environment}) for node in nodes)


def _depot(arguments: Mapping[str, str], lab: Lab, here: Here) -> list[NodeSpec]:
    """Where robots on other machines fetch candidates and deliver episodes; none if all share one disk."""
    if not (here.is_central and lab.machines):
        return []
    deployment = read_folder(arguments, "deployment")
    parameters: dict[str, Parameter] = {
        "store": lab_store(arguments, lab),
        "candidates": read_folder(arguments, "candidates"),
        "keys": str(Path(deployment) / "keys"),
        "state": deployment,
        "port": lab.depot_port,
    }
    return [NodeSpec("depot", "", parameters)]


def _central_nodes(arguments: Mapping[str, str], lab: Lab, here: Here) -> list[NodeSpec]:
    """What runs once for all robots: scorer (with the metric the gate asks for), scheduler and live page."""
    from opc_ros.deployment.gate_rules import GateRules

    if not here.is_central:
        return []
    rules = load_config(Path(read_config(arguments, "gate_config")), GateRules)
    store, candidates = lab_store(arguments, lab), read_folder(arguments, "candidates")
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
    nodes = [NodeSpec("scorer", "", scorer), NodeSpec("scheduler", "", scheduler), *_depot(arguments, lab, here)]
    if port := read_integer(arguments, "console"):
        console: dict[str, Parameter] = {"store": store, "candidates": candidates, "port": port}
        console |= {"scores": str(scores / "published"), "deployment": read_folder(arguments, "deployment")}
        nodes.append(NodeSpec("console", "", console))
    return nodes


SYSTEMS: tuple[System, ...] = (
    System(
        name="scripted",
        summary="A fake arm without physics and a recorder, for each robot: to see that a machine works.",
        arguments=(
            ROBOTS,
            STORE,
            Argument("seed", "0", "seed of the first robot; the next ones count up from it"),
            Argument("episodes", "0", "how many episodes each arm plays; 0: until stopped"),
            *NODE_OPTIONS,
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
            Argument(
                "clock", "false", "true: the twin publishes its time on /clock, and all nodes follow it; one robot only"
            ),
            Argument("episodes", "0", "how many episodes each arm plays; 0: until stopped"),
            Argument("arm_config", "arm_twin.yaml", "how the arm is reached: a path, or a file of config/"),
            *NODE_OPTIONS,
        ),
        build=_collect,
        make_files=prepare_people,
    ),
    System(
        name="hardware",
        summary="Recorder, arm guard and policy runner (or collector) for each real arm; scorer and scheduler once.",
        arguments=(
            lab_file("lab.yaml"),
            LAB_ROBOTS,
            MACHINE,
            Argument("mode", "deploy", "deploy: candidates play under permits; collect: a behaviour policy does"),
            Argument("policy", "blind_grasps", "mode collect: blind_grasps, teleoperation or service:NAME"),
            Argument("judge", "images", "mode collect: who labels: images (with the gripper), gripper or person"),
            Argument("object_set", "", "mode collect: what is in the bin"),
            Argument("episodes", "0", "mode collect: how many on each arm; 0: as many as the permit allows"),
            Argument("seed", "0", "mode collect: of the first episode"),
            *LOOP,
            *rule_files("gate.yaml", "scheduler.yaml"),
            *NODE_OPTIONS,
        ),
        build=_hardware,
        make_files=_prepare_hardware,
    ),
    System(
        name="twin",
        summary="The same with a twin behind driver topics for each arm; folders and keys it needs are created.",
        arguments=(
            lab_file("lab_twin.yaml"),
            LAB_ROBOTS,
            MACHINE,
            *LOOP,
            Argument("collect", "0", "how many episodes a behaviour policy plays on each arm first"),
            POLICY,
            *rule_files("gate_demo.yaml", "scheduler_twin.yaml"),
            *TWIN,
            *NODE_OPTIONS,
        ),
        build=_twin,
        make_files=_prepare_twins,
    ),
)
