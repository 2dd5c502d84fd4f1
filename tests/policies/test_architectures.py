from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from opc_ros.arms.arm import ScriptedArm
from opc_ros.camera import CameraSpec
from opc_ros.policies.architectures import ARCHITECTURES, QT_OPT_PARAMETERS, build_network
from opc_ros.policies.architectures.patch import PatchSampler, pose_after
from opc_ros.policies.input_spec import InputSpec, Normalisation
from tests.policies.making import CHOICES, scripted_camera

SPEC = InputSpec(
    96, 96, camera=scripted_camera(), action_choices=CHOICES, normalisation=Normalisation(image_range=(0.0, 1.0))
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_is_small_at_96_pixels(architecture: str) -> None:
    network = build_network(architecture, SPEC)
    assert sum(parameter.numel() for parameter in network.parameters()) < 300_000


def test_qt_opt_has_the_size_its_authors_give() -> None:
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(QT_OPT_PARAMETERS).items()}
    network = build_network("whole_image", InputSpec(472, 472), plain)
    assert sum(parameter.numel() for parameter in network.parameters()) == pytest.approx(1.2e6, rel=0.03)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_weight_takes_part_in_learning(architecture: str) -> None:
    torch.manual_seed(0)
    network = build_network(architecture, SPEC)
    images = torch.randint(0, 256, (4, 96, 96, 3), dtype=torch.uint8)
    tools = torch.tensor([[0.55, 0.0, 0.1, 0.2, 0.08]]).repeat(4, 1)
    network(images, tools, torch.rand(4, 8) * 0.1).sum().backward()
    assert [name for name, weight in network.named_parameters() if weight.grad is None] == []


def sampler(**changes: float) -> PatchSampler:
    given = {"side_m": 0.1, "cells": 5, "surface_z_m": 0.02} | changes
    return PatchSampler(SPEC, architecture="test", **given)  # type: ignore[arg-type]


def sampled_centre(image: np.ndarray, pose: tuple[float, float, float, float]) -> np.ndarray:
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    patch = sampler().sample(pixels, torch.tensor([[pose]]))
    return patch[0, 3:, 2, 2].numpy()  # colours at object height, middle cell


def test_a_patch_around_the_disc_shows_the_disc() -> None:
    arm = ScriptedArm(image_size=472)
    image = arm.begin(4).image
    x, y = arm.disc_xy
    np.testing.assert_allclose(sampled_centre(image, (x, y, 0.1, 0.0)), (220, 60, 40), atol=1)
    assert sampled_centre(image, (x + 0.06, y, 0.1, 0.0))[0] < 150


def test_the_patch_turns_with_the_tool() -> None:
    """An image that grows brighter with base y: +y is ahead of a tool turned by +90 degrees."""
    columns = torch.arange(96).float().expand(1, 1, 96, 96)
    straight = sampler().sample(columns, torch.tensor([[(0.55, 0.0, 0.1, 0.0)]]))[0, 0]
    turned = sampler().sample(columns, torch.tensor([[(0.55, 0.0, 0.1, math.pi / 2)]]))[0, 0]
    assert straight[0, 2] == pytest.approx(straight[4, 2].item(), abs=1e-3)
    assert straight[2, 0] - straight[2, 4] == pytest.approx(0.08 * 96 / 0.6, abs=1e-2)  # +y is to the left of it
    assert turned[0, 2] - turned[4, 2] == pytest.approx(0.08 * 96 / 0.6, abs=1e-2)


def test_a_perspective_camera_sees_the_tool_higher_up_elsewhere() -> None:
    """A camera 1 m above x = 0, y = 0 looking down, focal length 100 pixels: column 50 + 100 y / (1 - z)."""
    camera = CameraSpec(100, 100, ((0.0, 100.0, -50.0, 50.0), (-100.0, 0.0, -50.0, 50.0), (0.0, 0.0, -1.0, 1.0)))
    patch = PatchSampler(InputSpec(100, 100, camera=camera), side_m=0.1, cells=5, surface_z_m=0.0, architecture="test")
    columns = (torch.arange(100) + 0.5).expand(1, 1, 100, 100)
    seen = patch.sample(columns, torch.tensor([[(0.0, 0.1, 0.5, 0.0)]]))[0, :, 2, 2]
    assert seen.tolist() == pytest.approx([70.0, 60.0], abs=1e-3)


def test_points_behind_the_camera_are_outside_the_image() -> None:
    camera = CameraSpec(100, 100, ((0.0, 100.0, -50.0, 50.0), (-100.0, 0.0, -50.0, 50.0), (0.0, 0.0, -1.0, 1.0)))
    patch = PatchSampler(InputSpec(100, 100, camera=camera), side_m=0.1, cells=5, surface_z_m=0.0, architecture="test")
    seen = patch.sample(torch.ones(1, 1, 100, 100), torch.tensor([[(0.0, 0.0, 2.0, 0.0)]]))
    assert seen[0, 0].max() == 0.0


def test_an_action_moves_and_turns_the_pose() -> None:
    tools = torch.tensor([[0.5, 0.1, 0.3, 0.2, 0.08]])
    action = torch.tensor([[[0.01, -0.02, -0.05, math.sin(0.3), math.cos(0.3), 0, 0, 0]]])
    assert pose_after(tools, action)[0, 0].tolist() == pytest.approx([0.51, 0.08, 0.25, 0.5])
