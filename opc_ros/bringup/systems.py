"""The systems one can bring up by name, from a launch file or with `opc up`: one list for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.errors import SetupError


@dataclass(frozen=True, slots=True)
class Argument:
    """Something a person may set with name:=value."""

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

    def nodes(self, given: Mapping[str, str]) -> tuple[NodeSpec, ...]:
        """The nodes to start; what is not given has its default, and what is not known is refused."""
        known = {argument.name: argument.default for argument in self.arguments}
        for name in given:
            if name not in known:
                raise SetupError(f"{self.name}: unknown argument {name!r}, expected one of {', '.join(known)}")
        return self.build({**known, **given})


def find_system(name: str) -> System:
    for system in SYSTEMS:
        if system.name == name:
            return system
    raise SetupError(f"no system is called {name!r}, expected one of {', '.join(s.name for s in SYSTEMS)}")


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Read name:=value as `ros2 launch` does."""
    given = {}
    for word in words:
        name, separator, value = word.partition(":=")
        if not separator or not name:
            raise SetupError(f"argument {word!r}: expected name:=value")
        given[name] = value
    return given


def _robots(arguments: Mapping[str, str]) -> list[str]:
    robots = [robot.strip() for robot in arguments["robots"].split(",") if robot.strip()]
    for robot in robots:
        if not (robot.isidentifier() and robot.isascii()):
            raise SetupError(f"robot {robot!r}: expected a name of letters, digits and underscores")
    if not robots or len(set(robots)) != len(robots):
        raise SetupError(f"robots:={arguments['robots']}: expected different names with commas between")
    return robots


def _integer(arguments: Mapping[str, str], name: str) -> int:
    try:
        return int(arguments[name])
    except ValueError:
        raise SetupError(f"{name}:={arguments[name]}: expected a whole number") from None


def _scripted(arguments: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    store = str(Path(arguments["store"]).expanduser().resolve())
    nodes = []
    for number, robot in enumerate(_robots(arguments)):
        seed = _integer(arguments, "seed") + number
        episodes = _integer(arguments, "episodes")
        nodes += [
            NodeSpec("recorder", robot, {"robot": robot, "store": store}),
            NodeSpec("scripted_arm", robot, {"robot": robot, "seed": seed, "episodes": episodes}),
        ]
    return tuple(nodes)


SYSTEMS: tuple[System, ...] = (
    System(
        name="scripted",
        summary="A fake arm without physics and a recorder, for each robot: to see that a machine works.",
        arguments=(
            Argument("robots", "arm1", "names of the robots, with commas between; each gets a namespace"),
            Argument("store", "store", "folder of the validation store"),
            Argument("seed", "0", "what the first robot does follows from it; the next ones count on"),
            Argument("episodes", "0", "how many episodes each arm plays; 0: until stopped"),
        ),
        build=_scripted,
    ),
)
