"""The file formats a candidate's artifact may have, one object for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.policies.action_function import ActionFunction
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


@dataclass(frozen=True, slots=True)
class ArtifactFormat:
    """One file format, and how its bytes become a Q function or a policy."""

    name: str  # its name in candidate.yaml
    load: Callable[[Candidate, str, str], QFunction]  # candidate, where (for errors), device
    load_actions: Callable[[Candidate, str, str], ActionFunction]  # likewise, for a candidate of kind policy
    can_run_code: bool = False  # loaded only if the caller allows candidates to run code
