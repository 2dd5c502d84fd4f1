"""What a candidate's artifact may be: one object for each file format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


@dataclass(frozen=True, slots=True)
class ArtifactFormat:
    """One file format, and how its bytes become a Q function."""

    name: str  # what candidate.yaml calls it
    load: Callable[[Candidate, str, str], QFunction]  # candidate, where (for errors), device
    can_run_code: bool = False  # loaded only if the caller allows code
