"""torch.export: a `.pt2` file, which can hold pickles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opc_ros.policies.action_function import ActionFunction, ExportedActionFunction
from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


def _load(candidate: Candidate, where: str, device: str) -> QFunction:
    from opc_ros.policies.torch_q import ProgramQFunction

    return ProgramQFunction(_read(candidate, where, device), candidate.manifest.input)


def _load_actions(candidate: Candidate, where: str, device: str) -> ActionFunction:
    return ExportedActionFunction(_read(candidate, where, device), candidate.manifest.input)


def _read(candidate: Candidate, where: str, device: str) -> Callable[[list[np.ndarray]], np.ndarray]:
    import torch

    from opc_ros.policies.torch_q import load_program

    return load_program(candidate, lambda buffer: torch.export.load(buffer).module(), where, device)


FORMAT = ArtifactFormat("torch_export", _load, _load_actions, can_run_code=True)
