"""Builds a twin's URDF: any serial arm with a two-finger gripper whose collision shapes are boxes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from opc_ros.arms.model import find_urdf
from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import ConfigError

FINGERS = ("left_finger_joint", "right_finger_joint")
OPEN_APERTURE_M = 0.08
FINGERTIP_BELOW_TOOL_M = 0.008  # how far the fingers reach past the point called tool

_PALM_LENGTH_M = 0.065
_FINGER_THICKNESS_M = 0.012
_FINGER_WIDTH_M = 0.022


@dataclass(frozen=True, slots=True)
class GripperMount:
    """How far a gripper is from where the controller believes it to be."""

    yaw_offset_rad: float = 0.0
    sideways_m: float = 0.0
    has_cable: bool = False  # a dark tube along the hand, for looks only


SQUARE_MOUNT = GripperMount()


def compose_arm_urdf(arm: ArmSettings, mount: GripperMount) -> str:
    """URDF text of arm and gripper.

    The arm's links lose their collision meshes: inside the workspace box only hand and fingers can touch anything, and
    every mesh would cost time in each physics step. Links that no camera sees lose their visuals, which saves half of
    all triangles in an image.
    """
    path = find_urdf(arm.body.urdf)
    robot = ET.parse(path).getroot()
    _remove_hand(robot, arm.body.link, path)
    for link in robot.findall("link"):
        for collision in link.findall("collision"):
            link.remove(collision)
        for visual in link.findall("visual") if link.get("name") in arm.body.unseen_links else ():
            link.remove(visual)
    # Bullet places a body by its centre of mass; for the fixed base that does not matter, so make it the base frame.
    base_inertia = robot.find("link/inertial/origin")
    if base_inertia is not None:
        base_inertia.set("xyz", "0 0 0")
    for mesh in robot.iter("mesh"):
        mesh.set("filename", str(path.parent / mesh.get("filename", "").removeprefix("package://")))
    carrier, flange_m, tool = arm.body.link, arm.body.link_to_flange_m, arm.tool
    finger_m = tool.z_m + FINGERTIP_BELOW_TOOL_M - _PALM_LENGTH_M
    if finger_m < _FINGER_THICKNESS_M:
        raise ConfigError(f"tool: z_m is {tool.z_m}, expected room for a palm of {_PALM_LENGTH_M} m and fingers")
    robot.append(_link("tool", mass_kg=0.001))
    robot.append(_fixed_joint("tool_joint", carrier, "tool", f"{tool.x_m} {tool.y_m} {flange_m + tool.z_m}", "0 0 0"))
    palm = (0.045, 0.11, _PALM_LENGTH_M)
    robot.append(_link("palm", mass_kg=0.8, box_m=palm, centre_z_m=_PALM_LENGTH_M / 2))
    place = f"{tool.x_m} {tool.y_m + mount.sideways_m} {flange_m}"
    robot.append(_fixed_joint("palm_joint", carrier, "palm", place, f"0 0 {tool.yaw_rad + mount.yaw_offset_rad}"))
    if mount.has_cable:
        _append_cable(robot)
    for joint, sign in zip(FINGERS, (1, -1), strict=True):
        _append_finger(robot, joint, sign, finger_m)
    return ET.tostring(robot, encoding="unicode")


def _remove_hand(robot: ET.Element, carrier: str, path: Path) -> None:
    """Remove all links attached to the one that is to carry the twin's gripper."""
    links = {link.get("name", ""): link for link in robot.findall("link")}
    if carrier not in links:
        raise ConfigError(f"{path}: no link {carrier!r} to carry the gripper, expected one of {', '.join(links)}")
    hanging = [carrier]
    while hanging:
        above = hanging.pop()
        for joint in robot.findall("joint"):
            parent, child = joint.find("parent"), joint.find("child")
            if parent is not None and child is not None and parent.get("link") == above:
                robot.remove(joint)
                robot.remove(links[child.get("link", "")])
                hanging.append(child.get("link", ""))


def _append_finger(robot: ET.Element, name: str, sign: int, length: float) -> None:
    link = name.removesuffix("_joint")
    box = (_FINGER_WIDTH_M, _FINGER_THICKNESS_M, length)
    robot.append(_link(link, mass_kg=0.1, box_m=box, centre_z_m=length / 2))
    joint = ET.SubElement(robot, "joint", name=name, type="prismatic")
    ET.SubElement(joint, "parent", link="palm")
    ET.SubElement(joint, "child", link=link)
    # At zero the inner faces meet on the tool axis.
    place = f"0 {sign * _FINGER_THICKNESS_M / 2} {_PALM_LENGTH_M}"
    ET.SubElement(joint, "origin", xyz=place, rpy="0 0 0")
    ET.SubElement(joint, "axis", xyz=f"0 {sign} 0")
    ET.SubElement(joint, "limit", lower="0", upper=str(OPEN_APERTURE_M / 2), effort="80", velocity="0.4")


def _append_cable(robot: ET.Element) -> None:
    palm = robot.find("link[@name='palm']")
    assert palm is not None
    for centre, size in (("0.03 0.03 0.01", "0.012 0.012 0.14"), ("0.035 0.012 0.075", "0.01 0.045 0.01")):
        tube = ET.SubElement(palm, "visual")
        ET.SubElement(tube, "origin", xyz=centre, rpy="0 0 0")
        ET.SubElement(ET.SubElement(tube, "geometry"), "box", size=size)
        ET.SubElement(ET.SubElement(tube, "material", name="cable_material"), "color", rgba="0.05 0.05 0.06 1")


def _link(
    name: str, *, mass_kg: float, box_m: tuple[float, float, float] | None = None, centre_z_m: float = 0.0
) -> ET.Element:
    link = ET.Element("link", name=name)
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "origin", xyz=f"0 0 {centre_z_m}", rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=str(mass_kg))
    ET.SubElement(inertial, "inertia", ixx="1e-4", ixy="0", ixz="0", iyy="1e-4", iyz="0", izz="1e-4")
    if box_m is not None:
        for kind in ("visual", "collision"):
            shape = ET.SubElement(link, kind)
            ET.SubElement(shape, "origin", xyz=f"0 0 {centre_z_m}", rpy="0 0 0")
            ET.SubElement(ET.SubElement(shape, "geometry"), "box", size=" ".join(map(str, box_m)))
            if kind == "visual":
                material = ET.SubElement(shape, "material", name=f"{name}_material")
                ET.SubElement(material, "color", rgba="0.25 0.25 0.28 1")
    return link


def _fixed_joint(name: str, parent: str, child: str, xyz: str, rpy: str) -> ET.Element:
    joint = ET.Element("joint", name=name, type="fixed")
    ET.SubElement(joint, "parent", link=parent)
    ET.SubElement(joint, "child", link=child)
    ET.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
    return joint
