"""A first arm file for any serial arm: flange, posture and workspace found from its URDF, and checked."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opc_ros.arms.kinematics import Kinematics, ToolMount, ToolPose
from opc_ros.arms.limits import WorkspaceBox
from opc_ros.arms.model import ArmModel, find_urdf, load_arm_model
from opc_ros.errors import ConfigError, OutOfReach

TRIES = 120
YAWS_RAD = (-math.pi / 4, 0.0, math.pi / 4)
SMALLEST_BOX = 0.4  # fraction of the box that the arm's reach suggests
MARGIN_RAD = math.radians(6)  # kept from joint limits everywhere in the box
_FLANGE_WORDS = ("flange", "tool0", "link_ee", "ee_link", "link8", "link_8")


@dataclass(frozen=True, slots=True)
class ArmDraft:
    """What an arm file says about the arm itself."""

    urdf: str
    flange: str
    joint_names: tuple[str, ...]
    posture_deg: tuple[float, ...]
    held_joints: tuple[int, ...]
    workspace: WorkspaceBox
    start: tuple[float, float, float]
    margin_deg: float  # the closest any joint comes to its limits in the workspace


def suggest_flange(urdf: str) -> str:
    """The link at the end of the longest chain of rotating joints, or a link fixed to it with a customary name."""
    try:
        robot = ET.parse(find_urdf(urdf)).getroot()
    except ET.ParseError as error:
        raise ConfigError(f"{urdf}: not XML: {error}") from error
    below: dict[str, list[tuple[str, str]]] = defaultdict(list)
    children = set()
    for joint in robot.iterfind("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if parent is not None and child is not None:
            below[parent.get("link", "")].append((child.get("link", ""), joint.get("type", "")))
            children.add(child.get("link", ""))
    roots = [name for link in robot.iterfind("link") if (name := link.get("name", "")) not in children]
    if len(roots) != 1:
        raise ConfigError(f"{urdf}: {len(roots)} links have no parent, expected one base")
    turns, last = max(_chains(below, roots[0]))
    if not turns:
        raise ConfigError(f"{urdf}: no joint turns, expected a serial arm")
    fixed = _fixed_to(below, last)
    known = [link for word in _FLANGE_WORDS for link in fixed if word in link]
    return known[0] if known else last


def draft_arm(urdf: str, flange: str, mount: ToolMount, *, box: WorkspaceBox | None = None, seed: int = 0) -> ArmDraft:
    """Search for a posture from which the whole workspace can be reached with the tool straight down.

    Without a box, try one that suits the arm's reach and shrink it until a posture is found.
    """
    model = load_arm_model(urdf, flange)
    if model.joints not in (6, 7):
        raise ConfigError(f"{urdf}: {model.joints} joints lead to {flange}, expected 6 or 7: give another flange")
    held = (2,) if model.joints == 7 else ()
    boxes = (
        [box] if box is not None else [_box_for(model, mount, share) for share in (1.0, 0.85, 0.7, 0.55, SMALLEST_BOX)]
    )
    for tried in boxes:
        found = _search(model, mount, held, tried, np.random.default_rng(seed))
        if found is not None:
            margin_rad, posture = found
            low, high = np.array(tried.low_m), np.array(tried.high_m)
            start = (low + high) / 2
            return ArmDraft(
                urdf=urdf,
                flange=flange,
                joint_names=model.joint_names,
                posture_deg=tuple(round(math.degrees(angle), 1) for angle in posture),
                held_joints=tuple(joint + 1 for joint in held),
                workspace=tried,
                start=(float(start[0]), float(start[1]), float(low[2] + 0.65 * (high[2] - low[2]))),
                margin_deg=math.degrees(margin_rad),
            )
    raise ConfigError(
        f"{urdf}: no posture was found from which {model.name} reaches {_show(boxes[-1])} with the tool straight down "
        f"and {math.degrees(MARGIN_RAD):.0f} deg from its joint limits: {_advise(model, mount, held, boxes[-1], seed)}"
    )


def _advise(model: ArmModel, mount: ToolMount, held: Sequence[int], box: WorkspaceBox, seed: int) -> str:
    """Grippers are often mounted at an angle to the flange: see whether that alone explains the failure."""
    for yaw_deg in (135, -45, 45, -135, 90, -90):
        turned = replace(mount, yaw_rad=math.radians(yaw_deg))
        if _search(model, turned, held, box, np.random.default_rng(seed)) is not None:
            return f"is the gripper turned against the flange? --tool-yaw-deg {yaw_deg} would do"
    return "give another workspace"


def _search(
    model: ArmModel, mount: ToolMount, held: Sequence[int], box: WorkspaceBox, rng: np.random.Generator
) -> tuple[float, np.ndarray] | None:
    """The posture that stays furthest from joint limits everywhere in the box; elbow up is preferred."""
    middle = (np.array(box.low_m) + np.array(box.high_m)) / 2
    best: tuple[bool, float, np.ndarray] | None = None
    for _ in range(TRIES):
        centre, half = (model.lower_rad + model.upper_rad) / 2, (model.upper_rad - model.lower_rad) / 2
        guess = centre + rng.uniform(-0.7, 0.7, model.joints) * half
        guess[list(held)] = 0.0
        try:
            first = Kinematics(model, mount, posture_rad=guess, held=held).solve(
                ToolPose(float(middle[0]), float(middle[1]), float(middle[2]), 0.0)
            )
            posture = np.radians(np.round(np.degrees(_unwind(first, model)), 1))
            margin = _margin_over(Kinematics(model, mount, posture_rad=posture, held=held), box)
        except OutOfReach:
            continue
        found = (_elbow_height(model, posture) > middle[2] + mount.z_m, margin, posture)
        if margin >= MARGIN_RAD and (best is None or found[:2] > best[:2]):
            best = found
    return best[1:] if best is not None else None


def _margin_over(kinematics: Kinematics, box: WorkspaceBox) -> float:
    """The smallest distance of any joint from its limits over the box and the yaws; raises OutOfReach.

    The elbow bends most where the box is closest to the base, which is not at a corner, so the centres of faces and
    edges are checked as well.
    """
    model = kinematics.model
    corners = itertools.product(
        *((low, (low + high) / 2, high) for low, high in zip(box.low_m, box.high_m, strict=True))
    )
    angles = np.array([kinematics.solve(ToolPose(x, y, z, yaw)) for x, y, z in corners for yaw in YAWS_RAD])
    return float(min((angles - model.lower_rad).min(), (model.upper_rad - angles).min()))


def _unwind(joints: np.ndarray, model: ArmModel) -> np.ndarray:
    """Take out full turns where the joint limits allow it."""
    nearest = np.remainder(joints + math.pi, math.tau) - math.pi
    return np.where((nearest >= model.lower_rad) & (nearest <= model.upper_rad), nearest, joints)


def _elbow_height(model: ArmModel, joints: np.ndarray) -> float:
    import pinocchio

    data = model.chain.createData()
    pinocchio.forwardKinematics(model.chain, data, joints)
    return float(data.oMi[4 if model.joints == 7 else 3].translation[2])


def _box_for(model: ArmModel, mount: ToolMount, share: float) -> WorkspaceBox:
    lengths = [float(np.linalg.norm(place.translation)) for place in list(model.chain.jointPlacements)[3:]]
    reach = sum(lengths)
    depth, width, height = 0.36 * reach * share, 0.36 * reach * share, 0.38 * reach * share
    middle = 0.72 * reach
    low = (middle - depth / 2, -width / 2, 0.02)
    high = (middle + depth / 2, width / 2, 0.02 + height)
    return WorkspaceBox(
        (round(low[0], 2), round(low[1], 2), low[2]), (round(high[0], 2), round(high[1], 2), round(high[2], 2))
    )


def _chains(below: dict[str, list[tuple[str, str]]], link: str, turns: int = 0) -> list[tuple[int, str]]:
    """(number of rotating joints, last link) of every chain from this link; a prismatic joint ends a chain."""
    found = [(turns, link)]
    for child, kind in below[link]:
        if kind in ("revolute", "continuous"):
            found += _chains(below, child, turns + 1)
        elif kind == "fixed":
            found += [chain for chain in _chains(below, child, turns) if chain[0] > turns]
    return found


def _fixed_to(below: dict[str, list[tuple[str, str]]], link: str) -> list[str]:
    found = []
    for child, kind in below[link]:
        if kind == "fixed":
            found += [child, *_fixed_to(below, child)]
    return found


def _show(box: WorkspaceBox) -> str:
    return " x ".join(f"{low:g} to {high:g} m" for low, high in zip(box.low_m, box.high_m, strict=True))
