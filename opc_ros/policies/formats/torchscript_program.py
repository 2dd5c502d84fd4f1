"""TorchScript: a program of its own."""

from __future__ import annotations

from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


def _load(candidate: Candidate, where: str, device: str) -> QFunction:
    import torch

    from opc_ros.policies.torch_q import load_program

    return load_program(candidate, lambda buffer: torch.jit.load(buffer, map_location=device).eval(), where, device)


FORMAT = ArtifactFormat("torchscript", _load, can_run_code=True)
