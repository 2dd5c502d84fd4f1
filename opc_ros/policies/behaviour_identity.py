"""Which candidates behave alike: a digest that a new name or another provenance does not change."""

from __future__ import annotations

import hashlib

import safetensors
import safetensors.numpy

from opc_ros.documents import canonical_json
from opc_ros.policies.candidate import Candidate

_SAYS_NOTHING = ("name", "provenance", "artifact")  # keys of the manifest that do not affect what a candidate computes


def behaviour_id(candidate: Candidate) -> str:
    """sha256 over everything that decides which action is chosen: an aborted candidate keeps it under a new name.

    The values of the weights count, not the layout of their file. A copy that was changed on purpose, even by one bit,
    is another behaviour: whether its scores can be trusted is a question for the gate, not for this digest.
    """
    document = {key: value for key, value in candidate.manifest.to_document().items() if key not in _SAYS_NOTHING}
    digest = hashlib.sha256(b"opc behaviour 1\n")
    digest.update(canonical_json(document).encode() + b"\n")
    digest.update(_digest_artifact(candidate))
    return digest.hexdigest()


def _digest_artifact(candidate: Candidate) -> bytes:
    data, artifact_format = candidate.artifact_bytes, candidate.manifest.format
    digest = hashlib.sha256()
    if artifact_format == "safetensors":
        try:
            tensors = safetensors.numpy.load(data)
        except (safetensors.SafetensorError, KeyError, TypeError, ValueError):
            return hashlib.sha256(data).digest()
        for name in sorted(tensors):
            digest.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}\n".encode())
            digest.update(tensors[name].tobytes())
        return digest.digest()
    if artifact_format == "onnx":
        return hashlib.sha256(_strip_onnx(data)).digest()
    return hashlib.sha256(data).digest()


def _strip_onnx(data: bytes) -> bytes:
    """The graph without its producer and its documentation strings."""
    try:
        import onnx

        model = onnx.load_model_from_string(data)
    except Exception:  # onnx is not installed, or this is not an ONNX file: then only its bytes can be compared
        return data
    for name in ("producer_name", "producer_version", "domain", "doc_string", "metadata_props", "model_version"):
        model.ClearField(name)
    for name in ("name", "doc_string", "metadata_props"):
        model.graph.ClearField(name)
    for node in model.graph.node:
        for name in ("name", "doc_string", "metadata_props"):
            node.ClearField(name)
    return bytes(model.SerializeToString(deterministic=True))
