"""What a candidate's process may not do: no files, no network, no other processes, and no more than its share."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from opc_ros.policies.worker import seccomp

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_SPARE_FILES = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What a candidate may use."""

    memory_bytes: int = 2 << 30  # beyond what the bare process has
    cpu_s: int = 24 * 3600  # in its whole life; each choice has a deadline as well
    niceness: int = 0  # at least


def describe_confinement() -> tuple[bool, str]:
    """Whether candidates are fully confined on this machine, and a sentence that says how."""
    if sys.platform != "linux":
        return False, f"only a process of their own: {sys.platform} has neither seccomp nor parent-death signals"
    reason = seccomp.why_unavailable()
    limits = "own process, limits on memory, processor time, files and open descriptors, empty working directory"
    if reason:
        return False, f"{limits}; network and files are open to them: {reason}"
    return True, f"{limits}; seccomp allows computing only: no network, files, processes or threads"


def confine(keep: tuple[int, ...], limits: Limits) -> None:
    """Give up everything but the given descriptors; call once, before reading a byte of the candidate."""
    _end_with_parent()
    _close_all_but(keep)
    with tempfile.TemporaryDirectory(prefix="opc-think-") as empty:
        os.chdir(empty)
    os.nice(max(0, limits.niceness - os.nice(0)))  # the parent may have lowered its priority already
    _limit(limits)
    if not seccomp.why_unavailable():
        seccomp.allow_only_thinking()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _close_all_but(keep: tuple[int, ...]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    last = 3
    for descriptor in sorted(keep):
        os.closerange(last, descriptor)
        last = descriptor + 1
    os.closerange(last, 4096)


def _limit(limits: Limits) -> None:
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_NOFILE, max(_open_descriptors()) + 1 + _SPARE_FILES),
        (resource.RLIMIT_DATA, _data_bytes() + limits.memory_bytes),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _open_descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")] if sys.platform == "linux" else [64]


def _data_bytes() -> int:
    """Private writable memory that this process already has, by the kernel's count for the limit."""
    if sys.platform != "linux":
        return 1 << 30
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 1 << 30
