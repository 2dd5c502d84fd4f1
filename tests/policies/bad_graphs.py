"""Small ONNX graphs that do what no candidate should: loop forever, eat memory, answer NaN, refer to other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest

_OPSET = 17
SIZE = 16


def write_onnx(folder: Path, model: ModelProto, name: str = "", think_s: float = 1.0) -> Candidate:
    manifest = CandidateManifest(
        format_version=FORMAT_VERSION,
        name=name or folder.name,
        artifact="q.onnx",
        format="onnx",
        input=InputSpec(SIZE, SIZE),
        think_s=think_s,
    )
    return write_candidate(folder, manifest, model.SerializeToString())


def sums_actions() -> ModelProto:
    """Harmless: Q is the sum of the action."""
    return make_model([helper.make_node("ReduceSum", ["action", "one"], ["q"], keepdims=0)])


def loop(rounds: str, condition: str, carried: str) -> Any:
    """A node `q` that passes on its input, forever or for as many rounds as the first input says."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_in"], ["go_out"]), helper.make_node("Identity", ["x_in"], ["x_out"])],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_in", TensorProto.FLOAT, [None]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_out", TensorProto.FLOAT, [None]),
        ],
    )
    return helper.make_node("Loop", [rounds, condition, carried], ["q"], body=body)


def loops_for_ever(*, after_row: float = 0.0) -> ModelProto:
    """A While loop whose condition stays true; only for batches above this size, so that it loads."""
    return make_model(
        [
            helper.make_node("ReduceSum", ["action", "one"], ["sum"], keepdims=0),
            *_many_rows(after_row),
            loop("", "is_many", "sum"),
        ]
    )


def eats_memory(gigabytes: float, *, after_row: float = 0.0) -> ModelProto:
    """Fills this much with ones and adds it up."""
    count = np.array([int(gigabytes * 2**28)], dtype=np.int64)
    large = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["count"], ["ones"], value=helper.make_tensor("v", 1, [1], [1.0])),
            helper.make_node("ReduceSum", ["ones"], ["total"], keepdims=0),
        ],
        "large",
        [],
        [helper.make_tensor_value_info("total", TensorProto.FLOAT, [])],
    )
    small = helper.make_graph(
        [helper.make_node("Constant", [], ["nothing"], value=helper.make_tensor("n", 1, [], [0.0]))],
        "small",
        [],
        [helper.make_tensor_value_info("nothing", TensorProto.FLOAT, [])],
    )
    return make_model(
        [
            helper.make_node("ReduceSum", ["action", "one"], ["sum"], keepdims=0),
            *_many_rows(after_row),
            helper.make_node("If", ["is_many"], ["more"], then_branch=large, else_branch=small),
            helper.make_node("Add", ["sum", "more"], ["q"]),
        ],
        {"count": count},
    )


def answers_nan(*, after_row: float = 0.0) -> ModelProto:
    """0 / 0 for large batches."""
    return make_model(
        [
            helper.make_node("ReduceSum", ["action", "one"], ["sum"], keepdims=0),
            *_many_rows(after_row),
            helper.make_node("Where", ["is_many", "nan", "sum"], ["q"]),
        ],
        {"nan": np.array(np.nan, dtype=np.float32)},
    )


def points_at_other_files(location: str, *, where: str) -> ModelProto:
    """Weights that claim to be in another file: as an initializer, inside a sparse one, or in an attribute."""
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value=location)
    plain = [helper.make_node("ReduceSum", ["action", "one"], ["q"], keepdims=0)]
    if where == "attribute":
        return make_model([helper.make_node("Constant", [], ["w"], value=outside), *plain])
    model = make_model(plain)
    if where == "initializer":
        model.graph.initializer.append(outside)
    elif where == "sparse_initializer":
        indices = numpy_helper.from_array(np.arange(8, dtype=np.int64), "w_indices")
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(outside, indices, [16]))
    elif where == "sparse_attribute":
        indices = numpy_helper.from_array(np.arange(8, dtype=np.int64), "w_indices")
        sparse = helper.make_sparse_tensor(outside, indices, [16])
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    elif where == "subgraph":
        inner = helper.make_graph(
            [helper.make_node("Constant", [], ["w"], value=outside)],
            "inner",
            [],
            [helper.make_tensor_value_info("w", TensorProto.FLOAT, [8])],
        )
        model.graph.node.insert(0, helper.make_node("If", ["yes"], ["w2"], then_branch=inner, else_branch=inner))
    elif where == "function":
        function = helper.make_function(
            "lab", "Outside", [], ["w"], [helper.make_node("Constant", [], ["w"], value=outside)], [_opset()]
        )
        model.functions.append(function)
    return model


def _many_rows(after_row: float) -> list[Any]:
    return [
        helper.make_node("Shape", ["action"], ["shape"], start=0, end=1),
        helper.make_node("Squeeze", ["shape"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["rows_float"], to=TensorProto.FLOAT),
        helper.make_node(
            "Constant", [], ["threshold"], value=helper.make_tensor("t", TensorProto.FLOAT, [], [after_row])
        ),
        helper.make_node("Greater", ["rows_float", "threshold"], ["is_many"]),
    ]


def make_model(nodes: Sequence[Any], constants: dict[str, np.ndarray] | None = None) -> ModelProto:
    inputs = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [None, 3, SIZE, SIZE]),
        helper.make_tensor_value_info("tool", TensorProto.FLOAT, [None, 5]),
        helper.make_tensor_value_info("action", TensorProto.FLOAT, [None, 8]),
    ]
    output = helper.make_tensor_value_info("q", TensorProto.FLOAT, [None])
    known = {"one": np.array([1], dtype=np.int64)} | (constants or {})
    initializers = [numpy_helper.from_array(value, name) for name, value in known.items()]
    graph = helper.make_graph(list(nodes), "q", inputs, [output], initializers)
    return helper.make_model(graph, opset_imports=[_opset()], ir_version=9)


def _opset() -> Any:
    return helper.make_opsetid("", _OPSET)
