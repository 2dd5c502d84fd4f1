"""Loads policies for callers of many candidates: each in its own confined process, if this machine supports that."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from opc_ros.errors import SetupError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.policy import Policy, load_policy
from opc_ros.policies.stack import SingleStack, Stack
from opc_ros.policies.worker.confinement import Limits
from opc_ros.policies.worker.host import WorkerHost

_GPU = Path("/dev/nvidiactl")
_hosts: dict[bool, WorkerHost] = {}  # by whether candidates may run code of their own
_hosts_lock = threading.Lock()


def why_in_process() -> str:
    """Why candidates are scored in the scorer's own process on this machine; empty if they are not."""
    if sys.platform != "linux":
        return f"{sys.platform} has no confined processes"
    return "a GPU cannot be used from a confined process" if _GPU.exists() else ""


def scoring_device() -> str:
    """The device that scored candidates compute on; confined ones never use a GPU."""
    if not why_in_process():
        return "cpu"
    from opc_ros.policies.compute import choose_device

    return choose_device()


def shared_host(*, allow_code: bool = False) -> WorkerHost:
    """The program that all of this process's candidates are forked from; it takes seconds to start, so it is kept."""
    with _hosts_lock:
        host = _hosts.get(allow_code)
        if host is None or not host.is_alive:
            host = _hosts[allow_code] = WorkerHost(allow_code=allow_code)
        return host


class PolicyLoader:
    """Loads policies, and ends their processes when it is closed."""

    def __init__(self, *, allow_code: bool = False, niceness: int = 0, is_coarse: bool = False) -> None:
        """`is_coarse`: networks of named architectures in bfloat16, for scoring only."""
        if is_coarse and (reason := why_in_process()):
            raise SetupError(f"bfloat16: {reason}; score in float32")
        self._allow_code = allow_code
        self._is_coarse = is_coarse
        self._limits = Limits(niceness=niceness)
        self._loaded: list[Policy | Stack] = []

    def __enter__(self) -> PolicyLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, candidate: Candidate) -> Policy:
        if why_in_process():
            return load_policy(candidate, allow_code=self._allow_code)
        policy = shared_host(allow_code=self._allow_code).load_policy(
            candidate, limits=self._limits, is_coarse=self._is_coarse
        )
        self._loaded.append(policy)
        return policy

    def load_stack(self, candidates: Sequence[Candidate]) -> Stack:
        """Several candidates in one process, or one by itself."""
        if len(candidates) == 1:
            return SingleStack(self(candidates[0]))
        stack = shared_host(allow_code=self._allow_code).load_stack(
            candidates, limits=self._limits, is_coarse=self._is_coarse
        )
        self._loaded.append(stack)
        return stack

    def close(self) -> None:
        while self._loaded:
            self._loaded.pop().close()
