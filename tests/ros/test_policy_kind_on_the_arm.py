"""A candidate without Q, under a permit, over DDS: it does on the arm what it would do anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opc_ros.arms.arm import ScriptedArm
from opc_ros.playing import record_episode
from opc_ros.policies.policy import load_policy
from opc_ros.policies.q_function import Observations
from opc_ros.store import open_store
from tests.deployment.lab import make_lab
from tests.policies.acting import export_policy
from tests.ros.conftest import Probe, Process
from tests.ros.test_thinking_on_the_arm import ROBOT, SEED, Robot

pytestmark = pytest.mark.ros


def test_a_policy_without_q_acts_alike_on_the_arm_and_in_evaluation_sample_for_sample(
    tmp_path: Path, start: Callable[..., Process], probe: Probe
) -> None:
    make_lab(tmp_path, {ROBOT: ["full"]})
    candidate = export_policy(tmp_path / "candidates" / "sampling", name="sampling", samples=6)
    start("recorder", f"/{ROBOT}", store=str(tmp_path / "store"))
    robot = Robot(tmp_path, start, probe, wait_for_recorder=True)
    answer = robot.result(robot.send(candidate))
    assert answer.success, answer.message
    (episode_id,) = answer.episode_ids
    with open_store(tmp_path / "store") as store:
        probe.until(lambda: episode_id in {each.id for each in store.episodes()}, "the episode was not recorded")
        recorded = store.read(episode_id)
    assert (recorded.seed, recorded.behaviour_policy) == (SEED, candidate.id)
    evaluated = record_episode(
        ScriptedArm(image_size=64), load_policy(candidate), SEED, episode_id="e", object_set="disc"
    )
    assert [step.action for step in recorded.steps] == [step.action for step in evaluated.steps]
    assert len(recorded.steps) > 1
    # What is judged later, from the recorded frames, is what it did.
    seen = Observations.from_sequence([step.observe() for step in recorded.steps], candidate.manifest.input.view)
    np.testing.assert_array_equal(load_policy(candidate).decide_each(seen, seed=SEED)[0], evaluated.actions())
