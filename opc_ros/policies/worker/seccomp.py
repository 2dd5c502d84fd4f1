"""A seccomp filter for a process that only computes: memory, its one socket, the clock, and nothing else."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable

_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_SECCOMP = 21
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_REFUSE = 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16  # offsets in the struct that the kernel shows to the filter
_MAP_SHARED = 1
_X32 = 0x40000000  # a second ABI of the same kernel with other numbers

# What computing needs, by its system call number on each machine: no files, no sockets, no processes, no threads.
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "lseek": (8, 62),
    "fstat": (5, 80),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "futex": (202, 98),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getrandom": (318, 278),
    "restart_syscall": (219, 128),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "ppoll": (271, 73),
    "recvfrom": (45, 207),
    "sendto": (44, 206),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "getcpu": (309, 168),
    "set_robust_list": (273, 99),
    "poll": (7, None),
}
_MMAP, _TGKILL = (9, 222), (234, 131)


def why_unavailable() -> str:
    """Why this machine cannot filter system calls; empty if it can."""
    if sys.platform != "linux":
        return f"{sys.platform} has no seccomp"
    if platform.machine() not in _MACHINES:
        return f"no table of system calls for {platform.machine()}"
    try:
        mode = _libc().prctl(_PR_GET_SECCOMP, 0, 0, 0, 0)
    except OSError as error:
        return str(error)
    return "" if mode >= 0 else "this kernel was built without seccomp"


def allow_only_thinking() -> None:
    """Let this process only compute and answer on sockets it already has; everything else fails with EPERM.

    There is no way back. Existing threads would stay unfiltered, so there must be none.
    """
    column = list(_MACHINES).index(platform.machine())
    plain = [numbers[column] for numbers in _ALLOWED.values()]
    program = _assemble(_MACHINES[platform.machine()], _MMAP[column], _TGKILL[column], plain)
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: a count and, after padding, the address of the instructions.
    descriptor = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = _libc()
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(descriptor, len(descriptor)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp filter refused")


def _assemble(arch: int, mmap: int, tgkill: int, plain: Iterable[int | None]) -> bytes:
    lines = [
        _line(_LOAD, _ARCH_AT),
        _line(_EQUAL, arch, 1, 0),
        _line(_RETURN, _KILL),
        _line(_LOAD, _NUMBER_AT),
        _line(_AT_LEAST, _X32, 0, 1),
        _line(_RETURN, _REFUSE),
    ]
    for number in plain:
        if number is not None:
            lines += [_line(_EQUAL, number, 0, 1), _line(_RETURN, _ALLOW)]
    # Private memory, which counts against its limit; none that others could see.
    lines += [
        _line(_EQUAL, mmap, 0, 4),
        _line(_LOAD, _ARGS_AT + 8 * 3),
        _line(_ANY_BIT, _MAP_SHARED, 0, 1),
        _line(_RETURN, _REFUSE),
        _line(_RETURN, _ALLOW),
    ]
    # abort() signals the process itself.
    lines += [
        _line(_EQUAL, tgkill, 0, 4),
        _line(_LOAD, _ARGS_AT),
        _line(_EQUAL, os.getpid(), 0, 1),
        _line(_RETURN, _ALLOW),
        _line(_RETURN, _REFUSE),
    ]
    return b"".join([*lines, _line(_RETURN, _REFUSE)])


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
