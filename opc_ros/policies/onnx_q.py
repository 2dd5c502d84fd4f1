"""Q functions in ONNX: a graph of standard operators, no code of its own."""

from __future__ import annotations

import numpy as np

from opc_ros.errors import CandidateError, SetupError
from opc_ros.policies.artifact_signature import fixed_batch
from opc_ros.policies.exported import network_arguments
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations


class OnnxQFunction:
    """An ONNX graph run by onnxruntime on the calling thread."""

    def __init__(self, artifact: bytes, spec: InputSpec, *, where: str) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise SetupError(f"{where}: is in ONNX, but onnxruntime is missing; install opc-ros[onnx]") from error
        _refuse_other_files(artifact, where)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4  # what goes wrong is raised; the log would repeat it
        try:
            self._session = onnxruntime.InferenceSession(artifact, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its many error types share no narrower parent
            reason = " ".join(str(error).split())
            raise CandidateError(f"{where}: onnxruntime cannot load it: {reason}") from error
        self._names = [argument.name for argument in self._session.get_inputs()]
        self._spec = spec
        for argument in self._session.get_inputs():
            if argument.shape and isinstance(argument.shape[0], int):
                raise CandidateError(fixed_batch(f"{where}: input {argument.name}", argument.shape[0]))
        if len(self._names) != len(spec.arguments):
            raise CandidateError(
                f"{where}: the graph takes {len(self._names)} inputs ({', '.join(self._names)}), "
                f"the manifest gives {len(spec.arguments)} ({', '.join(spec.arguments)})"
            )

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        arguments = network_arguments(self._spec, observations, actions)
        return np.asarray(self._session.run(None, dict(zip(self._names, arguments, strict=True)))[0])


def _refuse_other_files(artifact: bytes, where: str) -> None:
    """A graph may name other files for its weights; those bytes would run without being part of the id."""
    import onnx

    try:
        model = onnx.load_model_from_string(artifact)
    except Exception as error:  # protobuf's own error type differs between its builds
        raise CandidateError(f"{where}: is no ONNX file") from error
    tensors = list(onnx.external_data_helper._get_all_tensors(model))
    names = [tensor.name for tensor in tensors if onnx.external_data_helper.uses_external_data(tensor)]
    if names:
        raise CandidateError(f"{where}: keeps weights in other files ({names[0]}, ...); save them inside the graph")
