"""A network rearranged for inference on a CPU answers like the network that was trained."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from opc_ros.policies.architectures import build_network
from opc_ros.policies.architectures.cpu_layout import StridedPool, lay_out_for_cpu
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations
from opc_ros.policies.torch_q import NetworkQFunction
from tests.policies.states import make_states, tensors

SIZE = 49


def make_network(**hyper_parameters: Any) -> torch.nn.Module:
    """A whole-image network whose normalisation has learned the usual signals, so that rows differ."""
    torch.manual_seed(3)
    network = build_network("whole_image", InputSpec(SIZE, SIZE), hyper_parameters).train()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        network(*tensors(*make_states(image_size=SIZE)))
    return network.eval()


@pytest.mark.parametrize(
    "hyper_parameters",
    [
        {},
        {"has_coordinates": False},
        {"stem_channels": 32, "stem_kernel": 6, "stem_pool": 3, "trunk_pool": 2},
        {"trunk_channels": [20], "head_channels": [16, 24], "tail_channels": []},
    ],
)
def test_a_rearranged_network_answers_as_before_up_to_rounding(hyper_parameters: dict[str, Any]) -> None:
    network = make_network(**hyper_parameters)
    seen, actions = make_states(image_size=SIZE)
    with torch.inference_mode():
        trained = network(*tensors(seen, actions)).numpy()
    spread = np.ptp(trained)
    assert spread > 0.01
    q_function = NetworkQFunction(copy.deepcopy(network), "cpu")  # type: ignore[arg-type]
    np.testing.assert_allclose(q_function.q(seen, actions), trained, rtol=0, atol=1e-5 * spread)
    in_halves = q_function.head(q_function.encode(seen), actions)
    np.testing.assert_allclose(in_halves, trained, rtol=0, atol=1e-5 * spread)


def test_coordinates_still_count_where_the_image_is_the_same_everywhere() -> None:
    """A mark in a grey image moves: without coordinates, pooled maps could hardly locate it."""
    network = make_network()
    first = network.get_submodule("trunk.0.0")
    assert isinstance(first, torch.nn.Conv2d)
    with torch.no_grad():
        first.weight[:, :3] = 0.0  # pixels have no effect any more, only coordinates and the action do
    grey = Observations(np.full((1, SIZE, SIZE, 3), 128, dtype=np.uint8), make_states(1)[0].tools)
    actions = make_states(1)[1]
    with torch.inference_mode():
        trained = network(*tensors(grey, actions)).item()
        network.coordinates = torch.zeros_like(network.coordinates)  # type: ignore[arg-type]
        nowhere = network(*tensors(grey, actions)).item()
        network.coordinates = make_network().coordinates
    assert abs(trained - nowhere) > 1e-3
    found = NetworkQFunction(network, "cpu").q(grey, actions)  # type: ignore[arg-type]
    assert found[0] == pytest.approx(trained, abs=1e-6)


def test_laying_out_twice_changes_nothing_more() -> None:
    network = make_network()
    given = tensors(*make_states(image_size=SIZE))
    lay_out_for_cpu(network)
    names = [name for name, _ in network.named_modules()]
    with torch.inference_mode():
        once = network(*given)
        lay_out_for_cpu(network)
        assert torch.equal(network(*given), once)
    assert [name for name, _ in network.named_modules()] == names


@pytest.mark.parametrize(("size", "side"), [(2, 8), (2, 9), (3, 11)])
def test_strided_pooling_takes_the_largest_and_passes_nan_on(size: int, side: int) -> None:
    generator = torch.Generator().manual_seed(side)
    features = torch.randn(3, 5, side, side, generator=generator)
    features[1, 2, 1, 0] = float("nan")
    expected = torch.nn.functional.max_pool2d(features, size)
    assert torch.isnan(expected).sum() == 1
    torch.testing.assert_close(StridedPool(size)(features), expected, rtol=0, atol=0, equal_nan=True)
