"""Behaviour cloning: a policy without Q that imitates recorded successes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from opc_ros.errors import TrainingError
from opc_ros.policies.action_search import AnswerDraw
from opc_ros.policies.architectures.policies import build_policy_network, state_policy_parameters
from opc_ros.policies.architectures.policy_network import MOVES, PolicyNetwork
from opc_ros.policies.candidate import write_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.policies.weights import save_weights
from opc_ros.progress import Report, ignore_progress
from sim_bridge.camera import STANDARD_CAMERA
from sim_bridge.training.augmentation import ImageJitter
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import Replay, split_episodes
from sim_bridge.training.run import DataOrigin, camera_spec

ARCHITECTURE = "keypoints"
_BATCH_STREAM = 4
_ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ClonedCheckpoint:
    """A policy written by cloning, and its distance from recorded actions at that point."""

    step: int
    folder: str
    candidate_id: str
    loss: float
    held_out_loss: float  # on successes held out from training


def clone_policy(
    recipe: TrainingRecipe, replay: Replay, out: Path, *, origin: DataOrigin, report: Report = ignore_progress
) -> tuple[ClonedCheckpoint, ...]:
    """Learn from successes only; of the recipe, data, sizes, steps, rate, jitter and seed are used."""
    learned, held_out = (_successes(part) for part in split_episodes(replay, recipe.held_out, recipe.seed))
    spec = InputSpec(
        recipe.image_size,
        recipe.image_size,
        camera=recipe.camera or camera_spec(STANDARD_CAMERA.calibrate(recipe.image_size)),
        arguments=("image", "tool"),
    )
    parameters = recipe.hyper_parameters
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        network = build_policy_network(ARCHITECTURE, spec, parameters, where=f"recipe {recipe.name}")
    jitter = ImageJitter(recipe.image_jitter, recipe.image_size, recipe.seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
    written, losses = [], []
    for step in range(1, recipe.steps + 1):
        rng = np.random.default_rng((recipe.seed, _BATCH_STREAM, step))
        rows = rng.integers(len(learned), size=min(recipe.batch_size, len(learned)))
        network.train()
        raw = network.raw(*_move(jitter.apply(learned.images[rows], rng), learned.tools[rows]))
        loss = imitation_loss(network, raw, torch.from_numpy(learned.actions[rows]))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
        if not np.isfinite(losses[-1]):
            raise TrainingError(f"run {recipe.name}: loss is {losses[-1]} at step {step}; lower learning_rate")
        if recipe.writes_candidate_at(step):
            notes = f"cloned from {len(learned.lengths)} successes; " + json.dumps({"batch_size": recipe.batch_size})
            manifest = CandidateManifest(
                FORMAT_VERSION,
                recipe.candidate_name(step),
                "weights.safetensors",
                "safetensors",
                spec,
                architecture=ARCHITECTURE,
                hyper_parameters=state_policy_parameters(ARCHITECTURE, parameters),
                action_search=AnswerDraw(),
                kind="policy",
                provenance=Provenance(
                    family=recipe.family or "cloned",
                    training_run=recipe.name,
                    step=step,
                    seed=recipe.seed,
                    data_snapshot=origin.snapshot_id,
                    git_revision=origin.git_revision,
                    notes=notes,
                ),
            )
            made = write_candidate(out / manifest.name, manifest, save_weights(network))
            held = _measure(network, held_out)
            written.append(ClonedCheckpoint(step, manifest.name, made.id, float(np.mean(losses[-50:])), held))
        report(step, recipe.steps, f"loss {np.mean(losses[-50:]):.3f}")
    return tuple(written)


def imitation_loss(network: PolicyNetwork, raw: Tensor, actions: Tensor) -> Tensor:
    """How far raw answers (B, 8) are from actions (B, 8): moves as fractions of their bounds, flags in nats."""
    rotation = torch.atan2(actions[:, 3], actions[:, 4])
    wanted = torch.cat([actions[:, :3], rotation[:, None]], dim=1) / network.limits
    moves = torch.nn.functional.smooth_l1_loss(torch.tanh(raw[:, :MOVES]), wanted.clamp(-1.0, 1.0), beta=0.1)
    gripper = (actions[:, 5] > 0.5).long() + 2 * (actions[:, 6] > 0.5).long()
    chosen = torch.nn.functional.cross_entropy(raw[:, MOVES : MOVES + 3], gripper)
    ended = torch.nn.functional.binary_cross_entropy_with_logits(raw[:, -1], (actions[:, 7] > 0.5).float())
    return 4.0 * moves + chosen + ended


def _successes(replay: Replay) -> Replay:
    return replay.take_episodes(np.flatnonzero(replay.success))


def _measure(network: PolicyNetwork, held_out: Replay) -> float:
    network.eval()
    losses, weights = [], []
    with torch.inference_mode():
        for start in range(0, len(held_out), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            raw = network.raw(*_move(held_out.images[rows], held_out.tools[rows]))
            losses.append(float(imitation_loss(network, raw, torch.from_numpy(held_out.actions[rows]))))
            weights.append(len(raw))
    return float(np.average(losses, weights=weights))


def _move(*parts: np.ndarray) -> list[Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(part)) for part in parts]
