"""Makes a candidate of any torch module: exports it with a dynamic batch size, tries it, and writes its manifest."""

from __future__ import annotations

import io
import logging
import runpy
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from opc_ros.errors import CandidateError, SetupError
from opc_ros.policies.action_function import check_answers
from opc_ros.policies.action_search import AnswerDraw
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.exported import network_arguments
from opc_ros.policies.loading import check_values, load_action_function, load_q_function
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.q_function import Observations
from opc_ros.task import find_task

SUFFIX: dict[str, str] = {"onnx": "policy.onnx", "torch_export": "policy.pt2"}
_TRIED = (1, 2, 7, 16)  # batch sizes; the traced example has three rows
_SAME = 1e-4


def build_module(reference: str) -> torch.nn.Module:
    """Run `FILE.py:FUNCTION` and return the module it builds, in evaluation mode."""
    path, colon, function = reference.rpartition(":")
    if not colon or not Path(path).is_file():
        raise CandidateError(f"{reference}: expected FILE.py:FUNCTION with a file that exists")
    try:
        names = runpy.run_path(path)
        if function not in names:
            raise CandidateError(f"{reference}: {path} defines no {function}")
        module = names[function]()
    except CandidateError:
        raise
    except Exception as error:  # other people's code may raise anything
        reason = " ".join(str(error).split())[:300]
        raise CandidateError(f"{reference}: raised {type(error).__name__}: {reason}") from error
    if not isinstance(module, torch.nn.Module):
        raise CandidateError(f"{reference}: returned {type(module).__name__}, expected a torch.nn.Module")
    return module.eval()


def export_candidate(module: torch.nn.Module, folder: Path, manifest: CandidateManifest) -> Candidate:
    """Export, write the folder, and refuse an export that does not agree with the module for every number of rows."""
    example = _arguments(manifest, rows=3, seed=0)
    try:
        wanted = module(*example)
    except Exception as error:  # the module is somebody else's
        shapes = ", ".join(
            f"{name} {tuple(one.shape)}" for name, one in zip(manifest.input.arguments, example, strict=True)
        )
        reason = " ".join(str(error).split())[:300]
        raise CandidateError(f"the module cannot be called with {shapes}: {reason}") from error
    _check(manifest, wanted.detach().numpy(), 3)
    data = _export_onnx(module, example) if manifest.format == "onnx" else _export_program(module, example)
    candidate = write_candidate(folder, manifest, data)
    _compare(module, candidate)
    return candidate


def _export_program(module: torch.nn.Module, example: tuple[torch.Tensor, ...]) -> bytes:
    batch = torch.export.Dim("batch")
    try:
        program = torch.export.export(module, example, dynamic_shapes=tuple({0: batch} for _ in example))
    except Exception as error:  # torch passes on whatever was raised
        raise _fixed_batch(error) from error
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _export_onnx(module: torch.nn.Module, example: tuple[torch.Tensor, ...]) -> bytes:
    try:
        import onnxscript  # noqa: F401 - torch's exporter needs it and says so in forty lines
    except ImportError as error:
        raise SetupError("export to onnx needs onnxscript; install opc-ros[onnx]") from error
    batch = torch.export.Dim("batch")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx._internal.exporter").setLevel(logging.ERROR)  # warns about torchvision
        path = Path(folder) / "policy.onnx"
        try:
            torch.onnx.export(
                module,
                example,
                str(path),
                dynamo=True,
                external_data=False,
                verbose=False,
                dynamic_shapes=tuple({0: batch} for _ in example),
            )
        except Exception as error:  # torch passes on whatever was raised
            raise _fixed_batch(error) from error
        return path.read_bytes()


def _fixed_batch(error: Exception) -> CandidateError:
    reason = " ".join(str(error).split())[:200]
    return CandidateError(
        "the module cannot be exported with a variable number of rows: it must not fix the first dimension (write "
        f"x.flatten(1) or x.reshape(x.shape[0], -1), no loop over rows): {reason}"
    )


def _compare(module: torch.nn.Module, candidate: Candidate) -> None:
    try:
        answer = _load(candidate)
    except CandidateError as error:  # torch has silently fixed the number of rows to the example's
        raise _fixed_batch(error) from error
    manifest = candidate.manifest
    for rows in _TRIED:
        observations, actions = _states(manifest, rows, seed=rows)
        with torch.inference_mode():
            wanted = module(*map(torch.from_numpy, network_arguments(manifest.input, observations, actions))).numpy()
        found = _check(manifest, answer(observations, actions), rows)
        worst = float(np.abs(found - _check(manifest, wanted, rows)).max())
        if worst > _SAME * max(1.0, float(np.abs(wanted).max())):
            raise CandidateError(
                f"candidate {candidate.name}: exported, it differs from the module by {worst:.3g} for {rows} rows, "
                "expected the same: is dropout on, or does a branch depend on values?"
            )


def _load(candidate: Candidate) -> Callable[[Observations, np.ndarray], np.ndarray]:
    """A function that returns its answers in these states: actions, or Q of the given actions."""
    if candidate.manifest.is_policy:
        function = load_action_function(candidate, allow_code=True, device="cpu")
        return lambda observations, actions: function.act(observations)
    return load_q_function(candidate, allow_code=True, device="cpu").q


def _check(manifest: CandidateManifest, answers: np.ndarray, rows: int) -> np.ndarray:
    """Answers, checked for the shape that the manifest states."""
    if isinstance(manifest.action_search, AnswerDraw):
        return check_answers(answers, rows, manifest.action_search.samples)
    return check_values(answers, rows)


def _states(manifest: CandidateManifest, rows: int, seed: int) -> tuple[Observations, np.ndarray]:
    rng, task = np.random.default_rng(seed), find_task(manifest.task, where=manifest.name)
    images = rng.integers(0, 256, (rows, *manifest.input.image_size, 3), dtype=np.uint8)
    tools = rng.normal(task.usual_state(), 0.02, (rows, len(task.state))).astype(np.float32)
    return Observations(images, tools), rng.normal(0, 0.03, (rows, len(task.actions))).astype(np.float32)


def _arguments(manifest: CandidateManifest, rows: int, seed: int) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.from_numpy, network_arguments(manifest.input, *_states(manifest, rows, seed))))
