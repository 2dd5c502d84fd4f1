"""The transform of each link of a URDF to its parent at given joint positions, as tf needs it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Placement:
    """One frame in another."""

    parent: str
    child: str
    position_m: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]  # x, y, z, w


@dataclass(frozen=True, slots=True, eq=False)
class _Joint:
    name: str
    kind: str
    parent: str
    child: str
    rotation: np.ndarray  # (3, 3)
    position_m: np.ndarray  # (3,)
    axis: np.ndarray  # (3,)


class LinkTree:
    """The joints of a URDF."""

    def __init__(self, urdf: str) -> None:
        robot = ET.fromstring(urdf)
        self._joints = [_read_joint(joint) for joint in robot.findall("joint")]
        children = {joint.child for joint in self._joints}
        links = [link.get("name", "") for link in robot.findall("link")]
        self.root = next(link for link in links if link not in children)
        self.moving_joints = tuple(joint.name for joint in self._joints if joint.kind != "fixed")

    def place_fixed(self) -> list[Placement]:
        """Links that never move relative to their parent."""
        return [_place(joint, 0.0) for joint in self._joints if joint.kind == "fixed"]

    def place_moving(self, positions: Mapping[str, float]) -> list[Placement]:
        """All other links at these joint positions; a joint that is not given is at zero."""
        return [_place(joint, positions.get(joint.name, 0.0)) for joint in self._joints if joint.kind != "fixed"]


def place(parent: str, child: str, matrix: np.ndarray) -> Placement:
    """A frame whose pose in its parent is a (4, 4) matrix."""
    x, y, z = matrix[:3, 3].tolist()
    return Placement(parent, child, (x, y, z), _to_quaternion(matrix[:3, :3]))


def _place(joint: _Joint, value: float) -> Placement:
    import pinocchio

    rotation, position = joint.rotation, joint.position_m
    if joint.kind == "prismatic":
        position = position + rotation @ joint.axis * value
    elif joint.kind != "fixed":
        rotation = rotation @ pinocchio.AngleAxis(value, joint.axis).toRotationMatrix()
    x, y, z = position.tolist()
    return Placement(joint.parent, joint.child, (x, y, z), _to_quaternion(rotation))


def _to_quaternion(rotation: np.ndarray) -> tuple[float, float, float, float]:
    import pinocchio

    x, y, z, w = pinocchio.Quaternion(np.ascontiguousarray(rotation)).normalized().coeffs().tolist()
    return x, y, z, w


def _read_joint(joint: ET.Element) -> _Joint:
    import pinocchio

    origin, axis = joint.find("origin"), joint.find("axis")
    xyz, rpy = ((origin.get(key) if origin is not None else None) or "0 0 0" for key in ("xyz", "rpy"))
    direction = np.array(((axis.get("xyz") if axis is not None else None) or "1 0 0").split(), dtype=float)
    ends = [joint.find(end) for end in ("parent", "child")]
    parent, child = ((end.get("link") if end is not None else None) or "" for end in ends)
    return _Joint(
        name=joint.get("name", ""),
        kind=joint.get("type", ""),
        parent=parent,
        child=child,
        rotation=pinocchio.rpy.rpyToMatrix(*map(float, rpy.split())),
        position_m=np.array(xyz.split(), dtype=float),
        axis=direction / max(float(np.linalg.norm(direction)), 1e-12),
    )
