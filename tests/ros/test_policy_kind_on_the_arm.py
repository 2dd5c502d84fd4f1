"""A candidate without Q, under a permit, over DDS: it does the same on the arm as anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opc_ros.policies.policy import load_policy
from opc_ros.policies.q_function import Observations
from tests.deployment.lab import make_lab
from tests.policies.acting import export_policy
from tests.ros.conftest import Probe, Process
from tests.ros.test_thinking_on_the_arm import ROBOT, SEED, play_on_the_arm_and_in_evaluation

pytestmark = pytest.mark.ros


def test_a_policy_without_q_acts_alike_on_the_arm_and_in_evaluation_sample_for_sample(
    tmp_path: Path, start: Callable[..., Process], probe: Probe
) -> None:
    make_lab(tmp_path, {ROBOT: ["full"]})
    candidate = export_policy(tmp_path / "candidates" / "sampling", name="sampling", samples=6)
    recorded, evaluated = play_on_the_arm_and_in_evaluation(tmp_path, start, probe, candidate)
    assert len(recorded.steps) > 1
    # What is judged later, from the recorded frames, is what it did.
    seen = Observations.from_sequence([step.observe() for step in recorded.steps], candidate.manifest.input.view)
    np.testing.assert_array_equal(load_policy(candidate).decide_each(seen, seed=SEED)[0], evaluated.actions())
