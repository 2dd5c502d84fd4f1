"""Each family of networks in every engine at its best batch, and how close target_crop is to this processor's peak.

python -m tests.benchmarks.bench_engines [--no-compile] [FAMILY ...]

ONNX Runtime and OpenVINO (`pip install onnxruntime openvino`) are compared if they are installed. Each has one thread:
the scorer gives every core a process of its own, and processor time of several threads is not counted finely enough
for runs of a millisecond.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from opc_ros.policies.architectures import QNetwork, build_network
from opc_ros.policies.architectures.answering import answer_each
from opc_ros.policies.architectures.cpu_layout import lay_out_for_cpu
from opc_ros.policies.architectures.target_crop import TargetCrop
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.compute import limit_threads_here
from opc_ros.policies.freed_memory import keep_freed_memory
from opc_ros.policies.image_view import resize_image
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.torch_q import fuse_normalisation
from opc_ros.policies.weights import load_network
from tests.policies.making import make_episode, scripted_camera

BATCHES = (16, 64)
TOLERANCE = 1e-6  # between float32 answers of different engines
STACK = 13  # 65 candidates make five stacks
ZOO = Path("sim_bridge/zoo/candidates")
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Maker = Callable[[QNetwork, Path, int], Callable[..., Any]]  # network, its ONNX file, batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=["target_crop", "tool_crop", "whole_image"])
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes minutes")
    arguments = parser.parse_args()
    limit_threads_here(1)
    keep_freed_memory()
    engines = dict(ENGINES)
    if arguments.no_compile:
        del engines["torch.compile"]
    print("processor time, one thread")
    states = _make_states()
    for family in arguments.families:
        _compare(family, states, engines)
    print(f"load average {os.getloadavg()[0]:.1f}")


def _compare(family: str, states: Inputs, engines: Mapping[str, Maker]) -> None:
    """Our engine on one family against all others, which get the network as it is exported."""
    networks = _load_networks() if family == "target_crop" else []
    network = networks[0] if networks else _make_network(family)
    with torch.inference_mode():
        exact = network(*states)
        if networks:
            ours, name = _print_ours(networks, states, exact)
        else:
            laid_out = copy.deepcopy(network)
            lay_out_for_cpu(laid_out)
            ours = min(_seconds_a_row(laid_out, states, rows) for rows in BATCHES)
            name = f"{family} as scored"
            print(f"  {family} in eager torch: {1e6 * _seconds_a_row(network, states, 64):.1f} us a Q value")
            print(f"  {name}: largest difference {float((laid_out(*states) - exact).abs().max()):.1e}")
    others = dict(_measure_others(network, states, exact, engines))
    if others:
        fastest = min(others, key=lambda each: others[each])
        print(
            f"{name}: {1e6 * ours:.1f} us a Q value, {ours / others[fastest]:.2f} times what the fastest other engine "
            f"takes ({fastest}, {1e6 * others[fastest]:.1f} us; goal at most 1.2)"
        )
    if networks:
        _print_roofline(networks[0], states, ours)


def _make_network(family: str) -> QNetwork:
    """The zoo's first network of this family, or a fresh one."""
    for folder in sorted(ZOO.iterdir()):
        candidate = read_candidate(folder)
        if candidate.manifest.architecture == family:
            network = load_network(candidate.manifest, candidate.artifact_bytes)
            break
    else:
        torch.manual_seed(0)
        network = build_network(family, InputSpec(96, 96, camera=scripted_camera()), {}).eval()
    fuse_normalisation(network)
    return network.requires_grad_(False)


def _load_networks() -> list[TargetCrop]:
    """The zoo's first networks of this kind, as they are loaded for scoring."""
    found: list[TargetCrop] = []
    for folder in sorted(ZOO.iterdir()):
        candidate = read_candidate(folder)
        if candidate.manifest.architecture == "target_crop" and len(found) < STACK:
            network = load_network(candidate.manifest, candidate.artifact_bytes)
            assert isinstance(network, TargetCrop)
            fuse_normalisation(network)
            found.append(network.requires_grad_(False))
    return found


def _make_states() -> Inputs:
    episodes = [make_episode(seed, image_size=472, steps=10) for seed in range(7)]
    rows = max(BATCHES)
    frames = [step.frame for episode in episodes for step in episode.steps][:rows]
    images = np.stack([resize_image(frame.decode(), (96, 96)) for frame in frames])
    tools = np.concatenate([episode.states() for episode in episodes])[:rows]
    actions = np.concatenate([episode.actions() for episode in episodes])[:rows]
    return torch.from_numpy(images), torch.from_numpy(tools), torch.from_numpy(actions)


def _print_ours(networks: list[TargetCrop], states: Inputs, exact: torch.Tensor) -> tuple[float, str]:
    whole = min(_seconds_a_row(networks[0], states, rows) for rows in BATCHES)
    alone = _seconds_a_row(lambda *given: answer_each(networks[:1], *given), states, 64)
    stacked = _seconds_a_row(lambda *given: answer_each(networks, *given), states, 64) / STACK
    mapped = _stack_by_vmap(networks)
    by_vmap = min(_seconds_a_row(mapped, states, rows) for rows in BATCHES) / STACK
    (windowed,) = answer_each(networks[:1], *states)
    half = copy.deepcopy(networks[0])

    def in_bfloat16(*given: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return answer_each([half], *given)[0].float()  # type: ignore[list-item]

    bfloat16 = _seconds_a_row(in_bfloat16, states, 64)
    order = float(spearmanr(exact, in_bfloat16(*states)).statistic)
    for name, seconds in (
        ("eager torch, whole map", whole),
        ("windows, alone", alone),
        (f"windows, stack of {STACK}", stacked),
        (f"vmap over a stack of {STACK}, whole map", by_vmap),
        (f"windows in bfloat16, alone, rank correlation {order:.5f}", bfloat16),
    ):
        print(f"  {name}: {1e6 * seconds:.1f} us a Q value")
    print(f"  windows against the whole map: largest difference {float((windowed - exact).abs().max()):.1e}")
    return stacked, f"windows in a stack of {STACK}"


def _stack_by_vmap(networks: list[TargetCrop]) -> Callable[..., torch.Tensor]:
    parameters, buffers = torch.func.stack_module_state(list(networks))  # type: ignore[arg-type]
    skeleton = copy.deepcopy(networks[0]).to("meta")

    def one(own: Any, kept: Any, *given: torch.Tensor) -> Any:
        return torch.func.functional_call(skeleton, (own, kept), given)

    mapped = torch.vmap(one, in_dims=(0, 0, None, None, None))
    return lambda *given: mapped(parameters, buffers, *given)


def _measure_others(
    network: QNetwork, states: Inputs, exact: torch.Tensor, engines: Mapping[str, Maker]
) -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = _export(network, Path(folder), states)
        for name, make in engines.items():
            found: dict[int, float] = {}
            farthest = 0.0
            for rows in BATCHES:
                given = tuple(each[:rows] for each in states)
                try:
                    run = make(network, path, rows)
                except ImportError as error:
                    print(f"  {name}: not installed here ({error.name}); not compared")
                    break
                farthest = max(farthest, float(np.abs(np.asarray(run(*given)) - exact[:rows].numpy()).max()))
                found[rows] = _fastest(lambda run=run, given=given: run(*given)) / rows  # type: ignore[misc]
            if found:
                best = min(found, key=lambda rows: found[rows])
                within = "within" if farthest <= TOLERANCE else "NOT within"
                print(
                    f"  {name}, batch {best}: {1e6 * found[best]:.1f} us a Q value; largest difference {farthest:.1e}, "
                    f"{within} {TOLERANCE:.0e}"
                )
                yield name, found[best]


def _export(network: QNetwork, folder: Path, states: Inputs) -> Path:
    batch = {0: torch.export.Dim("batch", min=1, max=4096)}
    path = folder / "network.onnx"
    example = tuple(each[:4] for each in states)
    torch.onnx.export(
        network, example, path, dynamo=True, dynamic_shapes=(batch,) * 3, external_data=False, verbose=False
    )
    return path


def _compile(network: QNetwork, path: Path, rows: int) -> Callable[..., Any]:
    import torch._inductor.config as inductor

    inductor.freezing = True
    inductor.cpp.threads = 1
    torch._dynamo.reset()
    compiled = torch.compile(network, dynamic=False)

    def run(*given: torch.Tensor) -> Any:
        with torch.no_grad():
            return compiled(*given)

    return run


def _open_onnx(network: QNetwork, path: Path, rows: int) -> Callable[..., Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda *given: session.run(None, dict(zip(names, (each.numpy() for each in given), strict=True)))[0]


def _open_openvino(network: QNetwork, path: Path, rows: int) -> Callable[..., Any]:
    import openvino  # type: ignore[import-not-found]

    core = openvino.Core()
    model = core.read_model(path)
    shapes = ((rows, 96, 96, 3), (rows, 5), (rows, 8))
    model.reshape({each.get_any_name(): list(shape) for each, shape in zip(model.inputs, shapes, strict=True)})
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    return lambda *given: request.infer([each.numpy() for each in given])[0].copy()


ENGINES: dict[str, Maker] = {"ONNX Runtime": _open_onnx, "OpenVINO": _open_openvino, "torch.compile": _compile}


def _print_roofline(network: TargetCrop, states: Inputs, ours: float) -> None:
    """Multiplications of the convolutions over the whole map and through windows, against this core's peak."""
    side, first, second = 48, 12, 12
    whole = side * side * (5 * 5 * 3 * first + 3 * 3 * first * second)
    head = 36 * 9 * 2 * second * 32 + 9 * 9 * 32 * 48 + 9 * 48 * 64
    windows = network.find_windows(*states).windows
    cells = np.array([(w.pixels.shape[0], (w.pixels.shape[2] - 3) // 2, (w.pixels.shape[3] - 3) // 2) for w in windows])
    share = float((cells[:, 0] * cells[:, 1] * cells[:, 2]).sum() / cells[:, 0].sum() / side**2)
    image, weights = torch.randn(32, 64, 48, 48), torch.randn(64, 64, 3, 3)
    with torch.inference_mode():
        peak = 2 * 32 * 48 * 48 * 64 * 64 * 9 / _fastest(lambda: torch.conv2d(image, weights, padding=1))
    needed = 2 * (share * whole + head)
    print(
        f"roofline: {2 * (whole + head) / 1e6:.1f} MFLOP a Q value over the whole map, {needed / 1e6:.1f} through "
        f"windows ({share:.0%} of the map); {needed / ours / 1e9:.0f} GFLOP/s of {peak / 1e9:.0f} one core does in "
        "a wide convolution; 12 of 16 lanes of a register are used"
    )


def _seconds_a_row(work: Callable[..., Any], states: Inputs, rows: int) -> float:
    given = tuple(each[:rows] for each in states)
    return _fastest(lambda: work(*given)) / rows


def _fastest(work: Callable[[], object], seconds: float = 1.0) -> float:
    """Processor seconds of the fastest run within the time limit: the one least disturbed by others."""
    work()
    best, until = float("inf"), time.process_time() + seconds
    while time.process_time() < until:
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    main()
