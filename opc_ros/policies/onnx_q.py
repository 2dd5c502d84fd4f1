"""Networks in ONNX: graphs of standard operators, no code of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from opc_ros.errors import CandidateError, OpcError, SetupError
from opc_ros.policies.artifact_signature import fixed_batch
from opc_ros.policies.exported import network_arguments
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations


class OnnxGraph:
    """An ONNX graph run by onnxruntime on the calling thread, arrays in, array out."""

    def __init__(self, artifact: bytes, spec: InputSpec, *, where: str) -> None:
        try:
            self._session = open_graph(artifact, where)
        except OpcError:
            raise
        except Exception as error:  # its many error types have no narrower common base
            reason = " ".join(str(error).split())
            raise CandidateError(f"{where}: onnxruntime cannot load it: {reason}") from error
        self._names = [argument.name for argument in self._session.get_inputs()]
        for argument in self._session.get_inputs():
            if argument.shape and isinstance(argument.shape[0], int):
                raise CandidateError(fixed_batch(f"{where}: input {argument.name}", argument.shape[0]))
        if len(self._names) != len(spec.arguments):
            raise CandidateError(
                f"{where}: the graph takes {len(self._names)} inputs ({', '.join(self._names)}), "
                f"the manifest gives {len(spec.arguments)} ({', '.join(spec.arguments)})"
            )

    def run(self, arguments: list[np.ndarray]) -> np.ndarray:
        """The first output, for inputs in the order of the manifest."""
        return np.asarray(self._session.run(None, dict(zip(self._names, arguments, strict=True)))[0])


class OnnxQFunction:
    """A graph that answers Q."""

    def __init__(self, artifact: bytes, spec: InputSpec, *, where: str) -> None:
        self._graph = OnnxGraph(artifact, spec, where=where)
        self._spec = spec

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        return self._graph.run(network_arguments(self._spec, observations, actions))


def warm_up() -> None:
    """Let the libraries read the files they read on first use; without the libraries there is nothing to do."""
    try:
        import onnx.helper
        import onnxruntime
    except ImportError:
        return
    given, found = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "warm", [given], [found])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    _refuse_other_files(model.SerializeToString(), "warm up")
    _open(model.SerializeToString()).run(None, {"x": np.zeros(1, dtype=np.float32)})
    onnxruntime.set_default_logger_severity(4)


def open_graph(artifact: bytes, where: str) -> Any:
    """A session on a graph that holds all of its weights; raises onnxruntime's own errors if it cannot be read."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise SetupError(f"{where}: is in ONNX, but onnxruntime is missing; install opc-ros[onnx]") from error
    _refuse_other_files(artifact, where)
    return _open(artifact)


def _open(artifact: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised anyway; the log would only repeat them
    return onnxruntime.InferenceSession(artifact, options, providers=["CPUExecutionProvider"])


def _refuse_other_files(artifact: bytes, where: str) -> None:
    """Refuse a graph that names other files for its weights: those bytes would run without being part of the id."""
    import onnx

    try:
        model = onnx.load_model_from_string(artifact)
    except Exception as error:  # protobuf's own error type differs between its builds
        raise CandidateError(f"{where}: is not an ONNX file") from error
    for tensor in _find_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise CandidateError(
                f"{where}: keeps weights in other files ({tensor.name or 'unnamed'}, ...); save them inside the graph"
            )


def _find_tensors(message: Any) -> Iterator[Any]:
    """Every tensor anywhere in a model: initializers, sparse ones, attributes, subgraphs, functions, training."""
    import onnx

    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if isinstance(value, Sequence) or hasattr(value, "add") else (value,):
                yield from _find_tensors(part)
