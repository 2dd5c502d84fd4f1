from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from opc_ros.arms.arm import ScriptedArm
from opc_ros.policies.architectures.policies import build_policy_network
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.policy import load_policy
from sim_bridge.training.cloning import clone_policy, imitation_loss
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import load_replay
from sim_bridge.training.run import DataOrigin
from tests.policies.making import make_episodes, scripted_camera

SIZE = 48
RECIPE = TrainingRecipe(
    name="cloned",
    image_size=SIZE,
    hyper_parameters={"channels": [12, 16], "points": 6, "hidden": [48]},
    steps=100,
    checkpoints=(5,),
    batch_size=48,
    learning_rate=3e-3,
    camera=scripted_camera(),
)


def test_a_policy_cloned_from_successes_moves_towards_the_disc_and_longer_training_is_nearer(tmp_path: Path) -> None:
    replay = load_replay(make_episodes(240, image_size=SIZE), image_size=SIZE, count=240)
    early, late = clone_policy(RECIPE, replay, tmp_path, origin=DataOrigin("5" * 64))
    assert late.held_out_loss < 0.7 * early.held_out_loss
    made = read_candidate(tmp_path / late.folder)
    assert made.id == late.candidate_id
    assert (made.manifest.kind, made.manifest.provenance.family) == ("policy", "cloned")
    assert made.manifest.provenance.data_snapshot == "5" * 64
    policy, nearer = load_policy(made), []
    for seed in range(500, 512):
        arm = ScriptedArm(image_size=SIZE)
        seen = arm.begin(seed)
        there = np.array(arm.disc_xy) - (seen.tool.x_m, seen.tool.y_m)
        moved = np.array(policy.decide(seen, seed=seed, step=0).vector[:2])
        nearer.append(np.linalg.norm(there - moved) < np.linalg.norm(there))
    assert np.mean(nearer) >= 0.75
    few = dataclasses.replace(RECIPE, steps=5)
    (again,) = clone_policy(few, replay, tmp_path / "again", origin=DataOrigin("5" * 64))
    assert again.candidate_id == early.candidate_id


def test_the_loss_counts_moves_in_shares_of_their_bounds_and_flags_in_nats() -> None:
    network = build_policy_network("keypoints", InputSpec(16, 16, arguments=("image", "tool")))
    raw = torch.zeros(1, 8)
    stay = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    indifferent = np.log(3) + np.log(2)  # among three choices for the gripper, and two for the end
    assert float(imitation_loss(network, raw, stay)) == pytest.approx(indifferent, rel=1e-6)
    # Half the bound along x: smooth L1 of 0.5 is 0.5 - 0.05, over four moves 0.1125, four times 0.45.
    along = stay.clone()
    along[0, 0] = 0.04
    assert float(imitation_loss(network, raw, along)) == pytest.approx(indifferent + 0.45, rel=1e-6)
