"""What a system that can be started by name consists of, and how its arguments are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_ros.bringup.config_files import find_config
from opc_ros.bringup.lab_names import NAMESPACE, in_lab, parse_namespace, read_namespace
from opc_ros.bringup.nodes import NodeSpec
from opc_ros.errors import SetupError

LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")


@dataclass(frozen=True, slots=True)
class Argument:
    """Something that a person may set with name:=value."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class System:
    """A named set of nodes that depends on a few arguments."""

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    build: Callable[[Mapping[str, str]], tuple[NodeSpec, ...]]
    make_files: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda arguments: ()

    def nodes(self, given: Mapping[str, str]) -> tuple[NodeSpec, ...]:
        """The nodes to start; missing arguments have their defaults, and unknown ones are refused."""
        complete = self._complete(given)
        return tuple(_with_options(node, complete) for node in self.build(complete))

    def namespace(self, given: Mapping[str, str]) -> str:
        """The namespace of the lab's nodes and names; empty if the lab does not share its ROS domain."""
        return self._complete(given)["namespace"]

    def prepare(self, given: Mapping[str, str]) -> tuple[str, ...]:
        """Create what the nodes need on disk, just before they start; returns a line for each thing made or to note."""
        complete = self._complete(given)
        namespace = complete["namespace"]
        advice = (f"lab {namespace}; in other terminals: export {NAMESPACE}={namespace}",) if namespace else ()
        return (*self.make_files(complete), *advice)

    def _complete(self, given: Mapping[str, str]) -> dict[str, str]:
        known = {argument.name: argument.default for argument in self.arguments}
        for name in given:
            if name not in known:
                raise SetupError(f"{self.name}: unknown argument {name!r}, expected one of {', '.join(known)}")
        complete = {**known, **given}
        complete["namespace"] = parse_namespace(complete["namespace"], "namespace:=") or read_namespace()
        return complete


def _with_options(node: NodeSpec, arguments: Mapping[str, str]) -> NodeSpec:
    """Apply the options that are common to all nodes."""
    file, level, sim_time = (arguments.get(name, "") for name in ("params_file", "log_level", "use_sim_time"))
    if level not in ("", *LOG_LEVELS):
        raise SetupError(f"log_level:={level}: expected one of {', '.join(LOG_LEVELS)}")
    if sim_time not in ("", "true", "false"):
        raise SetupError(f"use_sim_time:={sim_time}: expected true or false")
    if file and not Path(file).expanduser().is_file():
        raise SetupError(f"params_file:={file}: no such file")
    namespace = arguments["namespace"]
    return dataclasses.replace(
        node,
        namespace=in_lab(node.namespace, namespace).rstrip("/"),
        environment={**node.environment, **({NAMESPACE: namespace} if namespace else {})},
        params_file=str(Path(file).expanduser().resolve()) if file else "",
        log_level=level,
        parameters={**node.parameters, **({"use_sim_time": True} if sim_time == "true" else {})},
    )


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Parse name:=value as `ros2 launch` does."""
    given = {}
    for word in words:
        name, separator, value = word.partition(":=")
        if not separator or not name:
            raise SetupError(f"argument {word!r}: expected name:=value")
        given[name] = value
    return given


def read_robots(arguments: Mapping[str, str]) -> list[str]:
    """Comma-separated names; by default, systems with a lab file use its robots."""
    robots = [robot.strip() for robot in arguments["robots"].split(",") if robot.strip()]
    for robot in robots:
        if not (robot.isidentifier() and robot.isascii()):
            raise SetupError(f"robot {robot!r}: expected a name of letters, digits and underscores")
    if not robots or len(set(robots)) != len(robots):
        raise SetupError(f"robots:={arguments['robots']}: expected different names, separated by commas")
    return robots


def read_integer(arguments: Mapping[str, str], name: str) -> int:
    try:
        return int(arguments[name])
    except ValueError:
        raise SetupError(f"{name}:={arguments[name]}: expected a whole number") from None


def read_number(arguments: Mapping[str, str], name: str) -> float:
    try:
        return float(arguments[name])
    except ValueError:
        raise SetupError(f"{name}:={arguments[name]}: expected a number") from None


def read_switch(arguments: Mapping[str, str], name: str) -> bool:
    if arguments[name] not in ("true", "false"):
        raise SetupError(f"{name}:={arguments[name]}: expected true or false")
    return arguments[name] == "true"


def read_folder(arguments: Mapping[str, str], name: str) -> str:
    return str(Path(arguments[name]).expanduser().resolve())


def read_config(arguments: Mapping[str, str], name: str) -> str:
    """A path as given, or the name of an installed file."""
    return str(find_config(arguments[name]))
