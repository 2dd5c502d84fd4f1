"""Candidates that move the tool in circles until they see a black image; then each does something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opc_ros.policies.candidate import Candidate
from tests.policies.bad_graphs import loop, make_model, write_onnx

THINK_S = 0.5
_NOT = -1000.0
_ROWS = 10.0  # a candidate is tried on fewer when it is loaded
# Q of an action is its product with these and the tool's state, in metres: circles around x 0.60, y 0; back to z 0.20;
# nothing else. That is above everything in the bin: an arm that leans on something is another experiment.
_BY_TOOL = np.zeros((5, 8), dtype=np.float32)
_BY_TOOL[1, 0], _BY_TOOL[0, 1], _BY_TOOL[2, 2] = -100.0, 100.0, -100.0
_ALWAYS = np.array([0.0, -60.0, 20.0, 0.0, 1.0, _NOT, _NOT, _NOT], dtype=np.float32)


def make_candidates(folder: Path) -> dict[str, Candidate]:
    """By what they do when they see black: hang, slow, memory, nan."""
    return {
        "hang": _write(folder, "hang", [loop("", "is_black", "fine")]),
        "slow": _write(folder, "slow", [loop("rounds", "is_black", "fine")]),
        "memory": _write(folder, "memory", _eat()),
        "nan": _write(folder, "nan", [helper.make_node("Where", ["is_black", "nan", "fine"], ["q"])]),
    }


def _write(folder: Path, name: str, last: list[Any]) -> Candidate:
    nodes = [
        helper.make_node("MatMul", ["tool", "by_tool"], ["by_state"]),
        helper.make_node("Add", ["by_state", "always"], ["worth"]),
        helper.make_node("Mul", ["action", "worth"], ["parts"]),
        helper.make_node("ReduceSum", ["parts", "one"], ["fine"], keepdims=0),
        helper.make_node("ReduceMean", ["image"], ["brightness"], keepdims=0),
        helper.make_node("Less", ["brightness", "dark"], ["is_dark"]),
        helper.make_node("Shape", ["action"], ["shape"], start=0, end=1),
        helper.make_node("Squeeze", ["shape"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["rows_float"], to=TensorProto.FLOAT),
        helper.make_node("Greater", ["rows_float", "few"], ["is_search"]),
        helper.make_node("And", ["is_dark", "is_search"], ["is_black"]),
        *last,
    ]
    constants: dict[str, np.ndarray] = {
        "by_tool": _BY_TOOL,
        "always": _ALWAYS,
        "dark": np.array(0.02, dtype=np.float32),
        "few": np.array(_ROWS, dtype=np.float32),
        "nan": np.array(np.nan, dtype=np.float32),
        "count": np.array([3 * 2**28], dtype=np.int64),
        "rounds": np.array(30_000_000, dtype=np.int64),
    }
    return write_onnx(folder / name, make_model(nodes, constants), think_s=THINK_S)


def _eat() -> list[Any]:
    ones = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    large = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["count"], ["ones"], value=ones),
            helper.make_node("ReduceSum", ["ones"], ["total"], keepdims=0),
        ],
        "large",
        [],
        [helper.make_tensor_value_info("total", TensorProto.FLOAT, [])],
    )
    nothing = helper.make_tensor("n", TensorProto.FLOAT, [], [0.0])
    small = helper.make_graph(
        [helper.make_node("Constant", [], ["nothing"], value=nothing)],
        "small",
        [],
        [helper.make_tensor_value_info("nothing", TensorProto.FLOAT, [])],
    )
    return [
        helper.make_node("If", ["is_black"], ["more"], then_branch=large, else_branch=small),
        helper.make_node("Add", ["fine", "more"], ["q"]),
    ]
