"""What ROS tools see of a twin, and the views that ship with it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import yaml

from opc_ros.arms.link_tree import LinkTree
from opc_ros.bringup.lab import load_arm
from sim_bridge.arm_model import SQUARE_MOUNT, compose_arm_urdf
from sim_bridge.shown_arm import TRAY_LINK, show_over_tray

ROOT = Path(__file__).resolve().parents[2]


def test_meshes_have_addresses_that_exist_and_the_tray_moves_nothing() -> None:
    plain = compose_arm_urdf(load_arm("arm_twin.yaml", "arm1"), SQUARE_MOUNT)
    shown = show_over_tray(plain)
    files = [mesh.get("filename", "") for mesh in ET.fromstring(shown).iter("mesh")]
    assert files
    assert all(name.startswith("file:///") and Path(name.removeprefix("file://")).is_file() for name in files)
    tree = LinkTree(shown)
    assert tree.moving_joints == LinkTree(plain).moving_joints
    (tray,) = [placement for placement in tree.place_fixed() if placement.child == TRAY_LINK]
    assert tray.parent == tree.root
    assert tuple(tray.position_m) == (0.6, 0.0, 0.0)


def test_the_views_for_rviz_and_foxglove_name_what_a_twin_lab_publishes() -> None:
    rviz = yaml.safe_load((ROOT / "config" / "opc_twin.rviz").read_text())
    displays = {display["Name"]: display for display in rviz["Visualization Manager"]["Displays"]}
    assert displays["arm1"]["Description Topic"]["Value"] == "/arm1/robot_description"
    assert displays["arm1"]["TF Prefix"] == "arm1"
    assert displays["Camera of arm1"]["Topic"]["Value"] == "/arm1/camera/image/compressed"
    foxglove = json.loads((ROOT / "config" / "opc_twin.foxglove.json").read_text())
    text = json.dumps(foxglove["configById"])
    for topic in ("/arm1/robot_description", "/arm1/grasp/step", "/arm1/episode/event", "/ranking", "/diagnostics"):
        assert f'"{topic}"' in text

    def leaves(part: object) -> set[str]:
        return {str(part)} if isinstance(part, str) else leaves(part["first"]) | leaves(part["second"])  # type: ignore[index]

    assert leaves(foxglove["layout"]) == set(foxglove["configById"])
