"""The lab file: the robots, and each one's arm, camera, gripper widths, rungs and store, in one place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.config_files import find_config
from opc_ros.bringup.domain import LARGEST_DOMAIN, share_out_domains
from opc_ros.bringup.lab_names import in_lab, read_namespace
from opc_ros.config import load_config, parse_config
from opc_ros.deployment.rules import RungName, SchedulerRules
from opc_ros.documents import parse_yaml, read_bytes
from opc_ros.errors import ConfigError, SetupError


@dataclass(frozen=True, slots=True)
class LabRobot:
    """One arm of the lab; empty fields are taken from its arm file."""

    arm: str  # arm file: a path relative to the lab file, or a file in config/
    rungs: tuple[RungName, ...]  # rungs of the ladder that it may serve
    namespace: str = ""  # of driver and camera
    camera: str = ""  # image topic
    gripper: dict[str, float] = field(default_factory=dict)  # open_m, closed_m, held_from_m, held_to_m
    store: str = ""  # validation store its recorder writes to; empty: the lab's
    arm_domain: int | None = None  # ROS domain of driver, guard and gateway; default: counted down from 101
    arm_discovery: Literal["localhost", "subnet"] = "localhost"  # subnet: the driver runs on another machine
    machine: str = ""  # which of the lab's machines runs its nodes; empty: the central one


@dataclass(frozen=True, slots=True)
class LabMachine:
    """One computer of a lab that has several."""

    address: str  # IP address or host name at which the others reach it
    is_central: bool = False  # runs scorer, scheduler, console and depot, and has the lab's folders: exactly one


@dataclass(frozen=True, slots=True)
class Lab:
    """The content of config/lab.yaml."""

    robots: dict[str, LabRobot]
    store: str = "store"  # validation store of the lab
    machines: dict[str, LabMachine] = field(default_factory=dict)  # none: all nodes run on one machine
    depot_port: int = 8641  # on the central machine, where robots on others fetch candidates and deliver episodes

    def __post_init__(self) -> None:
        self._check_machines()
        if not self.robots:
            raise ValueError("robots: expected at least one")
        for name, robot in self.robots.items():
            if not (name.isidentifier() and name.isascii()):
                raise ValueError(f"robot {name!r}: expected a name of letters, digits and underscores")
            if robot.arm_domain is not None and not 0 <= robot.arm_domain <= LARGEST_DOMAIN:
                raise ValueError(f"robot {name}: arm_domain {robot.arm_domain}, expected from 0 to {LARGEST_DOMAIN}")

    def _check_machines(self) -> None:
        central = [name for name, machine in self.machines.items() if machine.is_central]
        if self.machines and len(central) != 1:
            raise ValueError(f"machines: {len(central)} of them are central, expected one to have is_central: true")
        for name, machine in self.machines.items():
            if not re.fullmatch(r"[A-Za-z0-9.:-]+", machine.address):
                raise ValueError(f"machine {name}: address {machine.address!r}, expected an IP address or a host name")
        for name, robot in self.robots.items():
            if robot.machine and robot.machine not in self.machines:
                raise ValueError(f"robot {name}: machine {robot.machine!r} is not among the lab's machines")
        if not 1 <= self.depot_port <= 65535:
            raise ValueError(f"depot_port {self.depot_port}, expected from 1 to 65535")

    @property
    def central(self) -> str:
        """The machine that runs scorer and scheduler; empty if the lab names no machines."""
        return next((name for name, machine in self.machines.items() if machine.is_central), "")

    def machine_of(self, robot: str) -> str:
        return self.robots[robot].machine or self.central

    def arm_domains(self, domain: int, namespace: str | None = None) -> dict[str, int]:
        """The ROS domain of each arm, for a lab in this domain; the namespace defaults to the environment's."""
        given = {name: robot.arm_domain for name, robot in self.robots.items()}
        domains = share_out_domains(domain, given, read_namespace() if namespace is None else namespace)
        for robot, own in domains.items():
            if own == domain:
                raise SetupError(
                    f"robot {robot}: arm_domain {own} is the lab's ROS_DOMAIN_ID, where everybody could move the arm: "
                    "give it another"
                )
        return domains


WIDTHS = ("open_m", "closed_m", "held_from_m", "held_to_m")


def load_lab(path: Path | str) -> Lab:
    return load_config(find_config(path), Lab)


def load_arm(path: Path | str, robot: str, namespace: str | None = None) -> ArmSettings:
    """How to reach a robot's arm: from its own file, or from the lab file that names the robot.

    Driver and camera are below the lab's namespace, which defaults to the environment's, unless theirs begins with a
    slash.
    """
    found = find_config(path)
    if _is_lab_file(found):
        lab = load_config(found, Lab)
        if robot not in lab.robots:
            raise ConfigError(f"{found}: no robot {robot!r}, it has {', '.join(lab.robots)}")
        settings = _merge(found, robot, lab.robots[robot])
    else:
        settings = dataclasses.replace(load_config(found, ArmSettings), robot=robot)
    if not settings.namespace or settings.namespace.startswith("/"):
        return settings
    return dataclasses.replace(settings, namespace=in_lab(settings.namespace, namespace))


def refuse_shared_arms(arms: Mapping[str, ArmSettings], namespace: str | None = None) -> None:
    """Refuse two robots that command the same controller or gripper: they would fight over it."""
    taken: dict[str, str] = {}
    for robot, settings in arms.items():
        for topic in commanded_topics(robot, settings, namespace):
            if topic in taken:
                raise SetupError(
                    f"robots {taken[topic]} and {robot} both command {topic}: "
                    "give each its own namespace or arm file in the lab file"
                )
            taken[topic] = robot


def commanded_topics(robot: str, settings: ArmSettings, namespace: str | None = None) -> tuple[str, str]:
    """Controller and gripper command topics of an arm, with full names."""
    named = settings.with_full_names()
    return tuple(  # type: ignore[return-value]
        name if name.startswith("/") else in_lab(f"/{robot}/{name}", namespace)
        for name in (named.controller, named.gripper.command)
    )


def load_scheduler_rules(rules: Path | str, lab: Path | str = "") -> SchedulerRules:
    """Rules of the scheduler for the robots of a lab file; in older labs the rules name the robots themselves."""
    path = find_config(rules)
    document = parse_yaml(read_bytes(path), where=str(path))
    if isinstance(document, dict) and (lab or "robots" not in document):
        lab = lab or "lab.yaml"
        robots = {name: {"rungs": list(each.rungs)} for name, each in load_lab(lab).robots.items()}
        if document.setdefault("robots", robots) != robots:
            raise ConfigError(f"{path}: names other robots or rungs than {lab}: leave them to the lab file")
    return parse_config(document, SchedulerRules, where=str(path))


def _is_lab_file(path: Path) -> bool:
    document = parse_yaml(read_bytes(path), where=str(path))
    return isinstance(document, dict) and "robots" in document


def _merge(lab: Path, name: str, robot: LabRobot) -> ArmSettings:
    beside = lab.parent / robot.arm
    settings = load_config(beside if beside.is_file() else find_config(robot.arm), ArmSettings)
    unknown = [key for key in robot.gripper if key not in WIDTHS]
    if unknown:
        raise ConfigError(f"{lab}: {name}: gripper: unknown key {unknown[0]!r}, expected some of {', '.join(WIDTHS)}")
    widths: dict[str, Any] = {**robot.gripper}
    try:
        return dataclasses.replace(
            settings,
            robot=name,
            namespace=robot.namespace or settings.namespace,
            camera=dataclasses.replace(settings.camera, topic=robot.camera or settings.camera.topic),
            gripper=dataclasses.replace(settings.gripper, **widths),
        )
    except ValueError as error:
        raise ConfigError(f"{lab}: {name}: {error}") from error
