"""Candidates of kind policy: with fresh weights of a named architecture, and exported from small modules."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from opc_ros.policies.action_search import AnswerDraw
from opc_ros.policies.architectures.policies import build_policy_network, state_policy_parameters
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.exporting import SUFFIX, export_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest
from opc_ros.policies.weights import save_weights
from tests.policies.making import scripted_camera

SMALL = {"channels": [4], "points": 3, "hidden": [8]}
Exported = Literal["onnx", "torch_export"]


class Reaching(torch.nn.Module):
    """Moves by the mean of each of the image's three channels minus a half, and goes down 3 cm."""

    def __init__(self, samples: int = 1, scale: float = 0.1) -> None:
        super().__init__()
        self.samples = samples
        self.scale = scale

    def forward(self, image: torch.Tensor, tool: torch.Tensor) -> torch.Tensor:
        move = self.scale * (image.mean(dim=(2, 3)) - 0.5)
        rest = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]).expand(image.shape[0], 5)
        action = torch.cat([move[:, :2], 0.0 * tool[:, :1] - 0.03, rest], dim=1)
        if self.samples == 1:
            return action
        # The k-th sample also moves k mm further along x.
        further = torch.arange(self.samples)[None, :, None] * torch.tensor([0.001, 0, 0, 0, 0, 0, 0, 0])
        return action[:, None] + further


def policy_manifest(name: str, artifact_format: str, *, samples: int = 1, image_size: int = 16) -> CandidateManifest:
    return CandidateManifest(
        FORMAT_VERSION,
        name,
        SUFFIX[artifact_format],
        artifact_format,
        InputSpec(image_size, image_size, arguments=("image", "tool")),
        action_search=AnswerDraw(samples=samples),
        kind="policy",
    )


def export_policy(
    folder: Path, artifact_format: Exported = "onnx", *, name: str = "reaching", samples: int = 1
) -> Candidate:
    return export_candidate(Reaching(samples), folder, policy_manifest(name, artifact_format, samples=samples))


def make_policy(folder: Path, *, seed: int = 0, image_size: int = 32, name: str = "") -> Candidate:
    """Fresh weights of the architecture that ships with opc_ros."""
    torch.manual_seed(seed)
    spec = InputSpec(image_size, image_size, camera=scripted_camera(), arguments=("image", "tool"))
    manifest = CandidateManifest(
        FORMAT_VERSION,
        name or f"keypoints-{seed}",
        "weights.safetensors",
        "safetensors",
        spec,
        architecture="keypoints",
        hyper_parameters=state_policy_parameters("keypoints", SMALL),
        action_search=AnswerDraw(),
        kind="policy",
    )
    return write_candidate(folder, manifest, save_weights(build_policy_network("keypoints", spec, SMALL)))
