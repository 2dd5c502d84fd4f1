from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from opc_ros.arms.link_tree import LinkTree, Placement
from opc_ros.arms.model import find_urdf
from opc_ros.arms.settings import ArmSettings


def to_matrix(placement: Placement) -> np.ndarray:
    x, y, z, w = placement.quaternion
    matrix = np.eye(4)
    matrix[:3, :3] = pinocchio.Quaternion(w, x, y, z).toRotationMatrix()
    matrix[:3, 3] = placement.position_m
    return matrix


def test_links_one_after_the_other_end_where_the_kinematics_see_the_flange():
    arm = ArmSettings()
    tree = LinkTree(find_urdf(arm.model.urdf).read_text())
    joints = np.array([0.3, 0.5, -0.2, -1.1, 0.4, 0.9, -0.7])
    positions = dict(zip(tree.moving_joints, joints, strict=True))
    parents = {each.child: each for each in (*tree.place_fixed(), *tree.place_moving(positions))}
    pose, link = np.eye(4), "flange"
    while link != tree.root:
        pose, link = to_matrix(parents[link]) @ pose, parents[link].parent
    rotation, position = arm.kinematics().locate_flange(joints)
    assert pose[:3, 3] == pytest.approx(position, abs=1e-12)
    assert pose[:3, :3] == pytest.approx(rotation, abs=1e-12)


def test_a_slide_goes_along_its_axis_in_its_own_frame():
    # Turned a quarter about z, the joint's y axis points along -x.
    tree = LinkTree(
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="prismatic"><parent link="a"/>'
        '<child link="b"/><origin xyz="1 2 3" rpy="0 0 1.5707963267948966"/><axis xyz="0 1 0"/></joint></robot>'
    )
    assert tree.root == "a"
    (placed,) = tree.place_moving({"j": 0.25})
    assert placed.position_m == pytest.approx((0.75, 2.0, 3.0))
