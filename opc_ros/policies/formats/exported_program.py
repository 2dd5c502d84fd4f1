"""torch.export: a `.pt2` file, which can hold pickles."""

from __future__ import annotations

from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


def _load(candidate: Candidate, where: str, device: str) -> QFunction:
    import torch

    from opc_ros.policies.torch_q import load_program

    return load_program(candidate, lambda buffer: torch.export.load(buffer).module(), where, device)


FORMAT = ArtifactFormat("torch_export", _load, can_run_code=True)
