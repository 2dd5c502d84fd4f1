"""A serial arm as its URDF describes it: the joints between base and flange, and their limits."""

from __future__ import annotations

import functools
import importlib.util
import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opc_ros.errors import ConfigError

if TYPE_CHECKING:
    import pinocchio

FULL_TURN_RAD = math.tau  # limit in each direction for continuous joints


@dataclass(frozen=True, slots=True, eq=False)
class ArmModel:
    """The chain of joints from base to flange."""

    name: str
    joint_names: tuple[str, ...]  # the URDF's names; a driver may use others
    lower_rad: np.ndarray  # (J,)
    upper_rad: np.ndarray  # (J,)
    velocity_rad_s: np.ndarray  # (J,)
    effort_nm: np.ndarray  # (J,)
    chain: pinocchio.Model  # these joints only
    flange: pinocchio.SE3  # the flange in the last joint's frame

    @property
    def joints(self) -> int:
        return len(self.joint_names)


def find_urdf(reference: str) -> Path:
    """The file that `package:path/inside/it` or a plain path names."""
    package, colon, inside = reference.partition(":")
    if not colon:
        path = Path(reference).expanduser()
    else:
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if not folders:
            raise ConfigError(f"urdf {reference!r}: no Python package {package!r} is installed")
        path = Path(folders[0]) / inside
    if not path.is_file():
        raise ConfigError(f"urdf {reference!r}: no file {path}")
    return path


@functools.lru_cache(maxsize=16)
def load_arm_model(reference: str, flange: str) -> ArmModel:
    """Read the joints that lead to the flange link; all others, such as fingers, are left out."""
    import pinocchio

    path = find_urdf(reference)
    whole = pinocchio.buildModelFromXML(_read(path))
    if not whole.existBodyName(flange):
        links = (frame.name for frame in whole.frames if frame.type == pinocchio.FrameType.BODY)
        raise ConfigError(f"{path}: no link {flange!r} to be the flange, expected one of {', '.join(links)}")
    frame = whole.frames[whole.getBodyId(flange)]
    leading = set(whole.supports[frame.parentJoint])
    others = [index for index in range(1, whole.njoints) if index not in leading]
    chain = pinocchio.buildReducedModel(whole, others, pinocchio.neutral(whole))
    names = tuple(chain.names)[1:]
    if not names:
        raise ConfigError(f"{path}: no joint leads to the link {flange!r}, expected a serial arm")
    for name, velocity, effort in zip(names, chain.velocityLimit, chain.effortLimit, strict=True):
        if not (velocity > 0.0 and effort > 0.0):
            raise ConfigError(
                f"{path}: joint {name}: velocity {velocity:g}, effort {effort:g}, expected limits above 0"
            )
    return ArmModel(
        name=whole.name,
        joint_names=names,
        lower_rad=np.array(chain.lowerPositionLimit),
        upper_rad=np.array(chain.upperPositionLimit),
        velocity_rad_s=np.array(chain.velocityLimit),
        effort_nm=np.array(chain.effortLimit),
        chain=chain,
        flange=chain.frames[chain.getBodyId(flange)].placement,
    )


def _read(path: Path) -> str:
    """The URDF's text, with continuous joints made revolute: one full turn in each direction.

    Pinocchio represents a continuous joint by sine and cosine, which no driver uses.
    """
    try:
        robot = ET.parse(path).getroot()
    except ET.ParseError as error:
        raise ConfigError(f"{path}: not XML: {error}") from error
    if robot.tag != "robot":
        raise ConfigError(f"{path}: begins with <{robot.tag}>, expected a URDF's <robot>")
    for joint in robot.iterfind("joint[@type='continuous']"):
        joint.set("type", "revolute")
        limit = joint.find("limit")
        limit = ET.SubElement(joint, "limit", effort="0", velocity="0") if limit is None else limit
        limit.set("lower", str(-FULL_TURN_RAD))
        limit.set("upper", str(FULL_TURN_RAD))
    return ET.tostring(robot, encoding="unicode")
