"""What an exported file says about its own inputs: enough for most of a manifest."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from opc_ros.errors import CandidateError, OpcError
from opc_ros.grasp import ACTION_SIZE, TOOL_SIZE
from opc_ros.policies.candidate import read_artifact
from opc_ros.policies.input_spec import InputSpec

Argument = Literal["image", "tool", "action"]
_FORMATS: dict[str, str] = {".onnx": "onnx", ".pt2": "torch_export"}
_CHANNELS = 3


def read_signature(path: Path, *, allow_code: bool = False) -> tuple[str, InputSpec]:
    """Format and input as far as the file states them; the range of image values follows from its type.

    A `.pt2` file must be loaded to find out, along with any pickles in it: only if the caller allows code.
    """
    artifact_format = _FORMATS.get(path.suffix)
    if artifact_format is None:
        raise CandidateError(
            f"{path}: ends in {path.suffix or 'nothing'}, expected .onnx or .pt2; weights of a named architecture need "
            "a manifest written by hand, other modules `opc candidate export`"
        )
    if artifact_format == "torch_export" and not allow_code:
        raise CandidateError(
            f"{path}: a .pt2 file can run code of its own as soon as it is opened; --allow-code if you trust its maker"
        )
    data = read_artifact(path)
    inputs = _onnx_inputs(data, path) if artifact_format == "onnx" else _program_inputs(data, path)
    return artifact_format, _to_spec(inputs, path)


def _onnx_inputs(data: bytes, path: Path) -> list[tuple[str, list[int | None], bool]]:
    from opc_ros.policies.onnx_q import open_graph  # imported here because it needs fixed_batch

    try:
        session = open_graph(data, str(path))
    except OpcError:
        raise
    except Exception as error:  # its many error types have no narrower common base
        raise CandidateError(f"{path}: onnxruntime cannot load it: {' '.join(str(error).split())[:300]}") from error
    return [
        (one.name, [size if isinstance(size, int) else None for size in one.shape], "uint8" in one.type)
        for one in session.get_inputs()
    ]


def _program_inputs(data: bytes, path: Path) -> list[tuple[str, list[int | None], bool]]:
    import torch

    try:
        program = torch.export.load(io.BytesIO(data))
    except Exception as error:  # torch passes on whatever its reader raised
        raise CandidateError(f"{path}: torch cannot load it: {' '.join(str(error).split())[:300]}") from error
    names = set(program.graph_signature.user_inputs)
    found = []
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in names:
            value = node.meta["val"]
            sizes = [size if isinstance(size, int) else None for size in value.shape]
            found.append((node.name, sizes, value.dtype is torch.uint8))
    return found


def _to_spec(inputs: Sequence[tuple[str, list[int | None], bool]], path: Path) -> InputSpec:
    arguments: list[Argument] = []
    height = width = 0
    layout: Literal["bhwc", "bchw"] = "bchw"
    is_bytes = False
    for name, sizes, is_uint8 in inputs:
        if sizes and sizes[0] is not None:
            raise CandidateError(fixed_batch(f"{path}: input {name}", sizes[0]))
        if len(sizes) == 4 and _CHANNELS in (sizes[1], sizes[3]):
            layout = "bchw" if sizes[1] == _CHANNELS else "bhwc"
            sides = sizes[2:] if layout == "bchw" else sizes[1:3]
            height, width = (side or 0 for side in sides)
            is_bytes = is_uint8
            arguments.append("image")
        elif len(sizes) == 2 and sizes[1] in (TOOL_SIZE, ACTION_SIZE):
            arguments.append("tool" if sizes[1] == TOOL_SIZE else "action")
        else:
            raise CandidateError(
                f"{path}: input {name} has shape {['any' if size is None else size for size in sizes]}, expected an "
                f"image (any, 3, height, width), a tool (any, {TOOL_SIZE}) or an action (any, {ACTION_SIZE})"
            )
    if not height or not width:
        raise CandidateError(f"{path}: does not say how large its images are; give --image-size")
    try:
        return InputSpec(
            height,
            width,
            image_layout=layout,
            image_values="bytes" if is_bytes else "unit",
            arguments=tuple(arguments),
        )
    except ValueError as error:
        raise CandidateError(f"{path}: {error}") from error


def fixed_batch(where: str, rows: int | None) -> str:
    """What to do about a network that was exported for a fixed number of rows."""
    return (
        f"{where} takes exactly {rows} rows, expected any number: export it with a dynamic batch (torch.onnx.export"
        "(..., dynamo=True, dynamic_shapes=[{0: Dim('batch')}, ...])), or let `opc candidate export` do it"
    )
