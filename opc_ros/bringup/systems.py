"""The systems one can bring up by name, from a launch file or with `opc up`: one list for both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.nodes import NodeSpec, Parameter
from opc_ros.bringup.system import Argument, System, read_config, read_folder, read_integer, read_number, read_robots
from opc_ros.bringup.twin_lab import prepare_twin_lab
from opc_ros.config import load_config
from opc_ros.errors import SetupError

SEEDS_APART = 1_000_000  # each twin has its own stretch of seeds
# One machine that simulates arms, scores and schedules may leave a process waiting for seconds; a real arm's must not.
COMMAND_TIMEOUT_S = 15.0
PATIENCE_WITH_TWINS: Mapping[str, Parameter] = {"heartbeat_s": 15.0, "recorder_timeout_s": 60.0}


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
    nodes = [*_central_nodes(arguments)]
    for robot in read_robots(arguments):
        nodes += _robot_side(arguments, robot, rungs="reduced,full")
        nodes.append(_guard(arguments, robot))
    return tuple(nodes)


def _twin(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    episodes = read_integer(arguments, "collect")
    nodes = [*_central_nodes(arguments)]
    for number, robot in enumerate(read_robots(arguments)):
        nodes += _robot_side(arguments, robot, rungs="twin,reduced,full", patience=PATIENCE_WITH_TWINS)
        nodes.append(_twin_arm(arguments, robot, number))
        if episodes:
            nodes.append(_behaviour(arguments, robot, number, episodes))
    return tuple(nodes)


def _collect(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    nodes = []
    for number, robot in enumerate(read_robots(arguments)):
        nodes += [
            _recorder(arguments, robot),
            _twin_arm(arguments, robot, number),
            _behaviour(arguments, robot, number, read_integer(arguments, "episodes")),
        ]
    return tuple(nodes)


def _central_nodes(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    """What runs once for all robots: who scores, by what the gate asks for, and who lends robots."""
    from opc_ros.deployment.gate import GateRules

    rules = load_config(Path(read_config(arguments, "gate_config")), GateRules)
    store, candidates = read_folder(arguments, "store"), read_folder(arguments, "candidates")
    scores = Path(read_folder(arguments, "scores"))
    scheduler = {
        "state": read_folder(arguments, "deployment"),
        "rules": read_config(arguments, "scheduler_config"),
        "gate": read_config(arguments, "gate_config"),
        "ranking": str(scores / "ranking.json"),
        "store": store,
        "candidates": candidates,
    }
    scorer: dict[str, Parameter] = {"store": store, "candidates": candidates, "out": str(scores)}
    scorer |= {"metric": rules.metric, "top_k": rules.top_k, "rescore_s": read_number(arguments, "rescore_s")}
    return (NodeSpec("scorer", "", scorer), NodeSpec("scheduler", "", scheduler))


def _robot_side(
    arguments: Mapping[str, str], robot: str, rungs: str, patience: Mapping[str, Parameter] | None = None
) -> list[NodeSpec]:
    """What runs for each robot: who records, and who checks permits and runs candidates."""
    state = Path(read_folder(arguments, "state")) / robot
    runner: dict[str, Parameter] = {
        "arm_config": read_config(arguments, "arm_config"),
        "rungs": rungs,
        "keys": str(state / "keys"),
        "state": str(state),
        **(patience or {}),
    }
    return [_recorder(arguments, robot), NodeSpec("policy_runner", robot, runner)]


def _recorder(arguments: Mapping[str, str], robot: str) -> NodeSpec:
    """It looks through the same camera as whoever drives the arm."""
    camera = load_config(read_config(arguments, "arm_config"), ArmSettings).with_full_names().camera
    parameters: dict[str, Parameter] = {
        "store": read_folder(arguments, "store"),
        "image_topic": camera.topic,
        "image_kind": "compressed" if camera.is_compressed else "raw",
    }
    return NodeSpec("recorder", robot, parameters)


def _guard(arguments: Mapping[str, str], robot: str) -> NodeSpec:
    return NodeSpec("arm_guard", robot, {"arm_config": read_config(arguments, "arm_config")})


def _twin_arm(arguments: Mapping[str, str], robot: str, number: int) -> NodeSpec:
    parameters: dict[str, Parameter] = {
        "arm_config": read_config(arguments, "arm_config"),
        "world": arguments["world"],
        "seed": read_integer(arguments, "seed") + SEEDS_APART * number,
        "image_size": read_integer(arguments, "image_size"),
        "real_time_factor": read_number(arguments, "real_time_factor"),
        "camera_hz": read_number(arguments, "camera_hz"),
        "joint_state_hz": read_number(arguments, "joint_state_hz"),
        "command_timeout_s": COMMAND_TIMEOUT_S,
    }
    return NodeSpec("twin", robot, parameters)


def _behaviour(arguments: Mapping[str, str], robot: str, number: int, episodes: int) -> NodeSpec:
    """Who drives an arm while there is no candidate to drive it."""
    parameters: dict[str, Parameter] = {
        "arm_config": read_config(arguments, "arm_config"),
        "world": arguments["world"],
        "policy": arguments["policy"],
        "seed": read_integer(arguments, "seed") + SEEDS_APART * number,
        "episodes": episodes,
        "recorder_timeout_s": PATIENCE_WITH_TWINS["recorder_timeout_s"],
    }
    return NodeSpec("behaviour", robot, parameters)


ROBOTS = Argument("robots", "arm1", "names of the robots, with commas between; each gets a namespace")
STORE = Argument("store", "store", "folder of the validation store")
TWIN = (
    Argument("world", "pseudo_real", "world of the twins; sim_bridge/worlds.py names them"),
    Argument("image_size", "472", "width and height of the images in pixels"),
    Argument("real_time_factor", "1", "simulated seconds for each second"),
    Argument("camera_hz", "10", "images each second"),
    Argument("joint_state_hz", "100", "joint states each second; fewer spare a busy machine"),
    Argument("seed", "0", "of the first layout of the first robot"),
)
LOOP = (
    STORE,
    Argument("candidates", "candidates", "folder of registered candidates"),
    Argument("scores", "scores/latest", "folder of the newest ranking and its report"),
    Argument("deployment", "deployment", "folder of keys, queue and audit log, where the scheduler runs"),
    Argument("state", "robots", "folder with one folder for each robot: its public keys and journal"),
    Argument("rescore_s", "0", "how often the scorer looks for new episodes and candidates; 0: only when asked"),
)
POLICY = Argument("policy", "better", "behaviour policy that collects; sim_bridge/behaviour.py names them")

SYSTEMS: tuple[System, ...] = (
    System(
        name="scripted",
        summary="A fake arm without physics and a recorder, for each robot: to see that a machine works.",
        arguments=(
            ROBOTS,
            STORE,
            Argument("seed", "0", "what the first robot does follows from it; the next ones count on"),
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
            *TWIN,
            POLICY,
            Argument("episodes", "0", "how many episodes each arm plays; 0: until stopped"),
            Argument("arm_config", "arm_twin.yaml", "how the arm is reached: a path, or a file of config/"),
        ),
        build=_collect,
    ),
    System(
        name="hardware",
        summary="Recorder, arm guard and policy runner for each real arm; scorer and scheduler once.",
        arguments=(
            ROBOTS,
            *LOOP,
            Argument("gate_config", "gate.yaml", "rules of the gate: a path, or a file of config/"),
            Argument("scheduler_config", "scheduler.yaml", "rules of the scheduler: a path, or a file of config/"),
            Argument("arm_config", "arm.yaml", "how the arm is reached: a path, or a file of config/"),
        ),
        build=_hardware,
    ),
    System(
        name="twin",
        summary="The same with a twin behind driver topics for each arm; what it needs on disk is made.",
        arguments=(
            Argument("robots", "arm1,arm2", "names of the robots, with commas between; each gets a namespace"),
            *LOOP,
            Argument("collect", "0", "how many episodes a behaviour policy plays on each arm first"),
            POLICY,
            Argument("gate_config", "gate_demo.yaml", "rules of the gate: a path, or a file of config/"),
            Argument("scheduler_config", "scheduler_twin.yaml", "rules of the scheduler: a path, or a file of config/"),
            Argument("arm_config", "arm_twin.yaml", "how the arm is reached: a path, or a file of config/"),
            *TWIN,
        ),
        build=_twin,
        make_files=prepare_twin_lab,
    ),
)
