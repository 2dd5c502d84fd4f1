"""ONNX: a graph that cannot run code of its own."""

from __future__ import annotations

from opc_ros.policies.action_function import ActionFunction, ExportedActionFunction
from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


def _load(candidate: Candidate, where: str, device: str) -> QFunction:
    from opc_ros.policies.onnx_q import OnnxQFunction

    return OnnxQFunction(candidate.artifact_bytes, candidate.manifest.input, where=where)


def _load_actions(candidate: Candidate, where: str, device: str) -> ActionFunction:
    from opc_ros.policies.onnx_q import OnnxGraph

    spec = candidate.manifest.input
    return ExportedActionFunction(OnnxGraph(candidate.artifact_bytes, spec, where=where).run, spec)


FORMAT = ArtifactFormat("onnx", _load, _load_actions)
