"""Formats of programs that torch runs, which can run code of their own."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from opc_ros.policies.action_function import ActionFunction, ExportedActionFunction
from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


def make_program_format(name: str, open_program: Callable[[io.BytesIO, str], Any]) -> ArtifactFormat:
    """The format of that name, whose artifacts `open_program` opens on a device."""

    def read(candidate: Candidate, where: str, device: str) -> Callable[[list[np.ndarray]], np.ndarray]:
        from opc_ros.policies.torch_q import load_program

        return load_program(candidate, lambda artifact: open_program(artifact, device), where, device)

    def load(candidate: Candidate, where: str, device: str) -> QFunction:
        from opc_ros.policies.torch_q import ProgramQFunction

        return ProgramQFunction(read(candidate, where, device), candidate.manifest.input)

    def load_actions(candidate: Candidate, where: str, device: str) -> ActionFunction:
        return ExportedActionFunction(read(candidate, where, device), candidate.manifest.input)

    return ArtifactFormat(name, load, load_actions, can_run_code=True)
