"""What two halves save in the cross-entropy method, and how fast a QT-Opt sized network is at 472x472."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from opc_ros.grasp import ActionBounds
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.architectures import ARCHITECTURES, QT_OPT_PARAMETERS, build_network
from opc_ros.policies.compute import available_cores, limit_threads_here
from opc_ros.policies.greedy import greedy_actions
from opc_ros.policies.image_view import resize_image
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations, QFunction
from opc_ros.policies.torch_q import fuse_normalisation
from tests.benchmarks.timing import fastest_s
from tests.policies.making import make_candidate, make_episode


class InOnePiece:
    """The same network without its halves: every sample processes its image again."""

    def __init__(self, q_function: QFunction) -> None:
        self._q_function = q_function

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        return self._q_function.q(observations, actions)


def main() -> None:
    limit_threads_here(1)
    for architecture in ARCHITECTURES:
        _bench_cem(architecture)
    limit_threads_here(available_cores())
    _bench_qt_opt()


def _bench_cem(architecture: str) -> None:
    steps = make_episode(0, image_size=472, steps=8).steps
    images = np.stack([resize_image(step.frame.decode(), (96, 96)) for step in steps])
    observations = Observations(images, np.stack([step.state_vector() for step in steps]))
    with tempfile.TemporaryDirectory() as folder:
        q_function = load_q_function(make_candidate(Path(folder), architecture=architecture, image_size=96))
    whole, search = InOnePiece(q_function), CrossEntropySearch()
    halves = fastest_s(lambda: greedy_actions(q_function, observations, ActionBounds(), search), 5)
    one_piece = fastest_s(lambda: greedy_actions(whole, observations, ActionBounds(), search), 5)
    print(
        f"CEM with {architecture} in two halves: {one_piece / halves:.1f} times faster than the full network for every "
        f"sample by processor time (goal at least 5), {halves / len(observations) * 1e3:.1f} ms a state"
    )


def _bench_qt_opt() -> None:
    torch.manual_seed(0)
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(QT_OPT_PARAMETERS).items()}
    network = build_network("whole_image", InputSpec(472, 472), plain).eval()
    steps = [make_episode(seed, image_size=472, steps=1).steps[0] for seed in range(8)]
    images = torch.from_numpy(np.stack([step.frame.decode() for step in steps]))
    tools = torch.from_numpy(np.stack([step.state_vector() for step in steps]))
    actions = torch.from_numpy(np.stack([step.action_vector() for step in steps]))
    _settle(network, images, tools, actions)
    modes: dict[str, torch.nn.Module] = {"float32": network, "float32, normalisation folded": copy.deepcopy(network)}
    fuse_normalisation(modes["float32, normalisation folded"])
    traced = torch.jit.trace(copy.deepcopy(network), (images[:1], tools[:1], actions[:1]))
    modes["float32, compiled for inference"] = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
    modes["bfloat16, normalisation folded"] = copy.deepcopy(modes["float32, normalisation folded"]).bfloat16()
    with torch.inference_mode():
        exact = network(images, tools, actions).numpy()
        slowest = 2 * fastest_s(lambda: network(images[:1], tools[:1], actions[:1]), 2, time.perf_counter)
        kept = {}
        for name, mode in modes.items():
            given = Converted(mode) if "bfloat16" in name else mode
            if fastest_s(partial(given, images[:1], tools[:1], actions[:1]), 2, time.perf_counter) > slowest:
                print(f"QT-Opt at 472x472, {name}: less than half as fast as float32 on this machine")
                continue
            seconds = fastest_s(partial(given, images, tools, actions), 2, time.perf_counter)
            order = float(spearmanr(exact, given(images, tools, actions).numpy()).statistic)
            print(f"QT-Opt at 472x472, {name}: {8 / seconds:.2f} samples a second, rank correlation {order:.4f}")
            if order > 0.9999:
                kept[name] = seconds
    fastest = min(kept, key=lambda name: kept[name])
    print(f"QT-Opt at 472x472, fastest mode that keeps rank order: {fastest}, {8 / kept[fastest]:.2f} samples a second")


class Converted:
    """A bfloat16 network behind float32 inputs and outputs."""

    def __init__(self, network: torch.nn.Module) -> None:
        self._network = network

    def __call__(self, images: torch.Tensor, tools: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            values: torch.Tensor = self._network(images, tools.bfloat16(), actions.bfloat16())
        return values.float()


def _settle(network: torch.nn.Module, *inputs: torch.Tensor) -> None:
    """Give normalisations the statistics of their inputs, so that signals neither vanish nor explode."""
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    network.train()
    with torch.no_grad():
        network(*inputs)
    network.eval()


if __name__ == "__main__":
    main()
