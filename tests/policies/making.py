"""Episodes of the scripted arm and candidates with fresh weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opc_ros.arms.arm import ScriptedArm
from opc_ros.camera import CameraSpec
from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep
from opc_ros.policies.action_search import ChoiceSearch, CrossEntropySearch
from opc_ros.policies.architectures import build_network, state_hyper_parameters
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.input_spec import InputSpec, Normalisation
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.policies.weights import save_weights
from opc_ros.store import open_store

# Of a network that is quick to make and to ask.
SMALL: dict[str, Any] = {
    "stem_channels": 4,
    "trunk_channels": [4],
    "head_channels": [4],
    "tail_channels": [],
    "hidden": [8],
}
# Stay, up and down.
CHOICES = tuple((0.0, 0.0, dz, 0.0, 1.0, 0.0, 0.0, 0.0) for dz in (0.0, 0.05, -0.05))


def scripted_camera(image_size: int = 472) -> CameraSpec:
    """ScriptedArm looks straight down on 0.6 m: column (y + 0.3), row (0.85 - x), in image widths of 0.6 m."""
    scale = image_size / 0.6
    return CameraSpec(
        image_size,
        image_size,
        ((0.0, scale, 0.0, 0.3 * scale), (-scale, 0.0, 0.0, 0.85 * scale), (0.0, 0.0, 0.0, 1.0)),
    )


def make_episode(seed: int, *, image_size: int = 64, steps: int = 5, robot: str = "scripted") -> Episode:
    """A noisy walk towards the disc; it succeeds in about half of all seeds."""
    rng = np.random.default_rng(seed)
    arm = ScriptedArm(robot, image_size=image_size)
    observation = arm.begin(seed)
    noise = float(rng.uniform(0.0, 0.08))
    taken = []
    for index in range(steps):
        is_last = index == steps - 1
        to_disc = np.array(arm.disc_xy) - (observation.tool.x_m, observation.tool.y_m)
        dx, dy = np.clip(to_disc / 2 + rng.normal(0, noise, 2) * (not is_last), -0.08, 0.08).tolist()
        action = GraspAction(
            displacement_m=(dx, dy, -0.07),
            rotation_rad=float(rng.uniform(-0.5, 0.5)),
            close_gripper=is_last,
            terminate=is_last,
        )
        frame = Frame.from_image(observation.image, observation.stamp_ns)
        motion = arm.apply(action)
        taken.append(GraspStep(frame=frame, tool=observation.tool, action=action, sent=motion.sent))
        observation = arm.observe()
    return Episode(
        id=f"e{seed:05d}",
        robot=robot,
        behaviour_policy="noisy",
        steps=tuple(taken),
        label=Label(is_success=arm.finish(), source=LabelSource.EPISODE_END, labeller="arm"),
        object_set="disc",
    )


def make_episodes(count: int, *, image_size: int = 64, robot: str = "scripted") -> list[Episode]:
    """Episodes of 3 to 7 steps."""
    return [make_episode(seed, image_size=image_size, steps=3 + seed % 5, robot=robot) for seed in range(count)]


def make_store(folder: Path | str, episodes: Iterable[Episode]) -> None:
    """A new validation store with these episodes."""
    with open_store(folder, create=True) as store:
        for episode in episodes:
            store.append(episode)


def make_candidate(
    folder: Path,
    *,
    architecture: str = "whole_image",
    seed: int = 0,
    image_size: int = 48,
    name: str = "",
    provenance: Provenance | None = None,
    search: CrossEntropySearch | None = None,
    **hyper_parameters: Any,
) -> Candidate:
    torch.manual_seed(seed)
    choices = CHOICES if architecture == "region_moments" else None
    is_moments = architecture == "region_moments"
    normalisation = Normalisation(image_range=(0.0 if is_moments else -1.0, 1.0))
    camera = scripted_camera()
    spec = InputSpec(image_size, image_size, camera=camera, action_choices=choices, normalisation=normalisation)
    manifest = CandidateManifest(
        format_version=FORMAT_VERSION,
        name=name or f"{architecture}-{seed}",
        artifact="weights.safetensors",
        format="safetensors",
        input=spec,
        architecture=architecture,
        hyper_parameters=state_hyper_parameters(architecture, hyper_parameters),
        action_search=ChoiceSearch() if is_moments else search or CrossEntropySearch(),
        provenance=provenance or Provenance(seed=seed),
    )
    network = build_network(architecture, spec, hyper_parameters)
    return write_candidate(folder, manifest, save_weights(network))
