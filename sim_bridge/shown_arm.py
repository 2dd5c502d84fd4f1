"""What ROS tools see of a twin: its arm, with meshes they can load, over its tray."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from sim_bridge.surroundings import TRAY_CENTRE_M, TRAY_FLOOR_M, TRAY_RIM_M

TRAY_LINK = "tray"
_HALF_M = 0.15  # what lies further from the centre counts as outside
_WALL_M = 0.006
_WALLS = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))


def show_over_tray(urdf: str) -> str:
    """The physics URDF adapted for display: meshes with file:// addresses, and a tray without collisions."""
    robot = ET.fromstring(urdf)
    for mesh in robot.iter("mesh"):
        name = mesh.get("filename", "")
        mesh.set("filename", f"file://{name}" if name.startswith("/") else name)
    root = _find_root(robot)
    tray = ET.SubElement(robot, "link", name=TRAY_LINK)
    _add_box(tray, (2 * _HALF_M, 2 * _HALF_M, TRAY_FLOOR_M), (0.0, 0.0, TRAY_FLOOR_M / 2))
    for along_x, along_y in _WALLS:
        size = (_WALL_M, 2 * _HALF_M, TRAY_RIM_M) if along_x else (2 * _HALF_M, _WALL_M, TRAY_RIM_M)
        _add_box(tray, size, (along_x * _HALF_M, along_y * _HALF_M, TRAY_RIM_M / 2))
    joint = ET.SubElement(robot, "joint", name="tray_joint", type="fixed")
    ET.SubElement(joint, "parent", link=root)
    ET.SubElement(joint, "child", link=TRAY_LINK)
    ET.SubElement(joint, "origin", xyz=f"{TRAY_CENTRE_M[0]} {TRAY_CENTRE_M[1]} 0", rpy="0 0 0")
    return ET.tostring(robot, encoding="unicode")


def _find_root(robot: ET.Element) -> str:
    children = {child.get("link") for child in robot.iterfind("joint/child")}
    return next(name for link in robot.findall("link") if (name := link.get("name", "")) not in children)


def _add_box(link: ET.Element, size_m: tuple[float, float, float], centre_m: tuple[float, float, float]) -> None:
    visual = ET.SubElement(link, "visual")
    ET.SubElement(visual, "origin", xyz=" ".join(map(str, centre_m)), rpy="0 0 0")
    ET.SubElement(ET.SubElement(visual, "geometry"), "box", size=" ".join(map(str, size_m)))
    ET.SubElement(ET.SubElement(visual, "material", name="tray_material"), "color", rgba="0.6 0.62 0.65 1")
