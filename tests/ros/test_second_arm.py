"""Another arm behind the same topics, from another file: a Franka Panda, driven well."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from opc_ros.arms.settings import ArmSettings
from opc_ros.config import load_config
from opc_ros.grasp import GraspAction
from opc_ros.ros.ros_arm import RosArm
from tests.domains import own_domain
from tests.ros.twin_rig import PATIENCE_S, ROBOT, ROOT, TwinProcess

pytestmark = pytest.mark.ros
FILE = ROOT / "config" / "arm_panda_twin.yaml"


@pytest.fixture(params=[("topic", "float64"), ("action", "parallel_gripper_command"), ("action", "gripper_command")])
def panda(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RosArm]:
    """Driven through topics, and through the actions that ros2_controllers offers."""
    pytest.importorskip("control_msgs")
    document = yaml.safe_load(FILE.read_text())
    document["controller_by"], document["gripper"]["driver"] = request.param
    file = tmp_path / "panda.yaml"
    file.write_text(yaml.safe_dump(document))
    settings = load_config(file, ArmSettings)
    with own_domain():
        twin = TwinProcess(arm_config=file)
        arm = RosArm(dataclasses.replace(settings, robot=ROBOT, connect_timeout_s=PATIENCE_S))
        yield arm
        arm.close()
        assert twin.stop() == 0


def test_a_panda_moves_turns_grips_and_lifts(panda: RosArm) -> None:
    start = panda.begin(5)
    assert start.tool.to_vector()[:4] == pytest.approx([0.6, 0.0, 0.22, 0.0], abs=0.004)
    motion = panda.apply(GraspAction(displacement_m=(0.03, 0.04, -0.05), rotation_rad=0.5))
    tool = panda.observe().tool
    assert motion.clamped == ()
    assert tool.to_vector()[:3] - start.tool.to_vector()[:3] == pytest.approx([0.03, 0.04, -0.05], abs=0.004)
    assert tool.yaw_rad - start.tool.yaw_rad == pytest.approx(0.5, abs=0.02)
    panda.apply(GraspAction(close_gripper=True))
    assert panda.observe().tool.aperture_m < 0.02
    assert panda.finish() is False
    assert panda.observe().tool.z_m == pytest.approx(0.22, abs=0.01)
    assert np.isfinite(panda.observe().image).all()
