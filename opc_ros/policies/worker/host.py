"""Starts confined processes for candidates and queries them, with a deadline and ready to stop waiting at any time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from opc_ros.errors import CandidateError, EpisodeStopped, ThoughtTooLong, WorkerLost
from opc_ros.policies.action_function import find_outside
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.loading import check_values
from opc_ros.policies.policy import Policy
from opc_ros.policies.q_function import Observations
from opc_ros.policies.worker.arena import Arena, Layout, make_arena_file
from opc_ros.policies.worker.confinement import Limits
from opc_ros.policies.worker.messages import (
    ASK,
    COMPARE,
    DECIDE,
    LOAD,
    MAX_ANSWER_BYTES,
    Answer,
    Request,
    Spawn,
    join_parts,
)
from opc_ros.policies.worker.nursery import CONTROL

LOOK_UP_S = 0.02  # how often a waiting caller checks whether to stop waiting
PATIENCE_S = 120.0  # if no deadline is given: no honest candidate takes longer
_START_S = 120.0

WhyToStop = Callable[[], str | None]


class WorkerHost:
    """The program that candidates' processes are forked from; when it ends, they end."""

    def __init__(self, *, allow_code: bool = False) -> None:
        self._allow_code = allow_code
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start_nursery(theirs.fileno(), allow_code=allow_code)
        self._is_ready = False

    def __enter__(self) -> WorkerHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def load_policy(
        self,
        candidate: Candidate,
        *,
        limits: Limits | None = None,
        deadline_s: float = PATIENCE_S,
        why_to_stop: WhyToStop = lambda: None,
        is_coarse: bool = False,
    ) -> Policy:
        """The candidate's policy, running in a process of its own.

        A choice that misses the deadline raises `ThoughtTooLong`. While waiting, `why_to_stop` is called every
        LOOK_UP_S, and the wait ends as soon as it returns a reason. Either way the process is killed.
        """
        process = CandidateProcess(self, [candidate], limits or Limits(), deadline_s, why_to_stop, is_coarse)
        return process.load_first().policies[0]

    def load_stack(
        self, candidates: Sequence[Candidate], *, limits: Limits | None = None, is_coarse: bool = False
    ) -> CandidateProcess:
        """Candidates that share a process, because none of them brings code of its own."""
        process = CandidateProcess(self, candidates, limits or Limits(), PATIENCE_S, lambda: None, is_coarse)
        return process.load_first()

    def fork(
        self,
        candidates: Sequence[Candidate],
        limits: Limits,
        link: socket.socket,
        arena_file: int,
        *,
        is_coarse: bool = False,
    ) -> int:
        """A fresh process with the candidates' bytes; returns a descriptor that can kill exactly this process."""
        data = join_parts([(candidate.manifest_bytes, candidate.artifact_bytes) for candidate in candidates])
        layout = Layout.of(candidates[0].manifest)
        spawn = Spawn(
            candidates=len(candidates),
            image_size=layout.image_size,
            state_size=layout.state_size,
            action_size=layout.action_size,
            memory_bytes=limits.memory_bytes,
            cpu_s=limits.cpu_s,
            niceness=limits.niceness,
            allow_code=self._allow_code,
            is_coarse=is_coarse,
        )
        bytes_file = os.memfd_create("opc-candidate", os.MFD_CLOEXEC)
        try:
            with open(bytes_file, "wb", closefd=False) as file:
                file.write(data)
            with self._lock:
                self._wait_until_ready()
                socket.send_fds(self._control, [spawn.pack()], [link.fileno(), bytes_file, arena_file])
                pid = int.from_bytes(self._receive(), "little")
                return os.pidfd_open(pid)
        except OSError as error:
            names = ", ".join(candidate.name for candidate in candidates)
            raise WorkerLost(f"no process for candidate {names}: {error.strerror or error}") from error
        finally:
            os.close(bytes_file)

    def _wait_until_ready(self) -> None:
        if not self._is_ready:
            self._receive()
            self._is_ready = True

    def _receive(self) -> bytes:
        self._control.settimeout(_START_S)
        data = self._control.recv(64)
        if not data:
            raise WorkerLost(f"the program that runs candidates ended with {self._process.wait()}")
        return data


class CandidateProcess:
    """The process of one candidate, or of a stack of them; its answers are checked as untrusted input."""

    def __init__(
        self,
        host: WorkerHost,
        candidates: Sequence[Candidate],
        limits: Limits,
        deadline_s: float,
        why_to_stop: WhyToStop,
        is_coarse: bool = False,
    ) -> None:
        self._host = host
        self._limits = limits
        self._is_coarse = is_coarse
        self._candidates = tuple(candidates)
        self._name = ", ".join(candidate.name for candidate in candidates)
        self.policies = tuple(Policy(candidate, _Member(self, n)) for n, candidate in enumerate(candidates))
        self._layout = Layout.of(candidates[0].manifest, len(candidates))
        self._lock = threading.Lock()
        self._link: socket.socket | None = None
        self._process = -1
        self._arena: Arena | None = None
        self._deadline_s = deadline_s
        self._why_to_stop = why_to_stop

    def load_first(self) -> CandidateProcess:
        """Load for the first time, and leave no process behind if that fails."""
        try:
            self.load()
        except BaseException:
            self.close()
            raise
        return self

    def load(self) -> None:
        """Start the process and let it load; called again after an earlier one was killed."""
        self.close()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arena_file = make_arena_file(self._layout)
        try:
            with theirs:
                self._process = self._host.fork(
                    self._candidates, self._limits, theirs, arena_file, is_coarse=self._is_coarse
                )
            self._arena = Arena(arena_file, self._layout)
        finally:
            os.close(arena_file)
        self._exchange(Request(LOAD), max(PATIENCE_S, self._deadline_s))

    def q(self, members: Sequence[int], seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q of each action under the candidates with these indices, (M, B)."""
        parts, asked = [], sum(1 << member for member in members)
        with self._lock:
            for start, rows in self._pieces(seen):
                arena = self._write(rows)
                arena.actions(len(rows))[:] = actions[start : start + len(rows)]
                self._exchange(Request(ASK, len(rows), members=asked), self._deadline_s)
                parts.append(arena.values(len(rows), len(members)).copy())
        found = np.concatenate(parts, axis=1)
        return found[np.argsort(np.argsort(members))]  # answers come in the order of the indices

    def decide_on(
        self, member: int, seen: Observations, *, seed: int, first_step: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        actions, values = [], []
        with self._lock:
            for start, rows in self._pieces(seen):
                arena = self._write(rows)
                request = Request(DECIDE, len(rows), seed, first_step + start, 1 << member)
                self._exchange(request, self._deadline_s)
                chosen = arena.chosen(len(rows)).copy()
                if complaint := find_outside(chosen, self._candidates[member].manifest.input.action_space):
                    raise CandidateError(f"candidate {self._candidates[member].name}: its action {complaint}")
                actions.append(chosen)
                values.append(check_values(arena.values(len(rows))[0].copy(), len(rows)))
        return np.concatenate(actions), np.concatenate(values)

    def q_in_one_state(self, member: int, seen: Observations, actions: np.ndarray) -> np.ndarray:
        """Q of several actions in one state under one candidate, (K,)."""
        values = []
        with self._lock:
            if self._link is None:
                self.load()
            size = self._layout.rows_at_once
            for start in range(0, len(actions), size):
                piece = actions[start : start + size]
                assert self._arena is not None
                self._arena.images(len(piece))[:1] = seen.images
                self._arena.tools(len(piece))[:1] = seen.tools
                self._arena.actions(len(piece))[:] = piece
                self._exchange(Request(COMPARE, len(piece), members=1 << member), self._deadline_s)
                values.append(check_values(self._arena.values(len(piece))[0].copy(), len(piece)))
        return np.concatenate(values)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.close(self._process)
            self._process = -1
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._arena is not None:
            self._arena.close()
            self._arena = None

    def _pieces(self, seen: Observations) -> list[tuple[int, Observations]]:
        """As many rows as the shared memory holds at once: all of them, unless images are very large."""
        if self._link is None:
            self.load()
        size = self._layout.rows_at_once
        return [(start, seen.rows(start, start + size)) for start in range(0, len(seen), size)]

    def _write(self, rows: Observations) -> Arena:
        assert self._arena is not None
        self._arena.images(len(rows))[:] = rows.images
        self._arena.tools(len(rows))[:] = rows.tools
        return self._arena

    def _exchange(self, request: Request, deadline_s: float) -> None:
        """Send a request and wait; a process that is late, lost or no longer waited for is killed."""
        assert self._link is not None
        try:
            self._link.send(request.pack())
            data = self._wait(self._link, deadline_s)
        except OSError as error:
            self.close()
            raise WorkerLost(f"candidate {self._name}: its process is gone: {error.strerror}") from error
        except BaseException:
            self.close()
            raise
        if not data:
            self.close()
            raise WorkerLost(f"candidate {self._name}: its process died, out of memory or by itself")
        answer = Answer.unpack(data)
        if not answer.is_done:
            raise CandidateError(answer.text)

    def _wait(self, link: socket.socket, deadline_s: float) -> bytes:
        until = time.monotonic() + deadline_s
        poll = select.poll()
        poll.register(link, select.POLLIN)
        while True:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise ThoughtTooLong(f"candidate {self._name}: took longer than {deadline_s:g} s")
            if poll.poll(1000 * min(left_s, LOOK_UP_S)):
                return link.recv(MAX_ANSWER_BYTES)
            if (reason := self._why_to_stop()) is not None:
                raise EpisodeStopped(reason)


class _Member:
    """One candidate in a process that it may share with others."""

    def __init__(self, process: CandidateProcess, number: int) -> None:
        self._process = process
        self._number = number

    def q(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        return check_values(self._process.q((self._number,), seen, actions)[0], len(actions))

    def decide_on(self, seen: Observations, *, seed: int, first_step: int = 0) -> tuple[np.ndarray, np.ndarray]:
        return self._process.decide_on(self._number, seen, seed=seed, first_step=first_step)

    def q_in_one_state(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        return self._process.q_in_one_state(self._number, seen, actions)

    def close(self) -> None:
        self._process.close()


def _start_nursery(control: int, *, allow_code: bool) -> subprocess.Popen[bytes]:
    """A fresh interpreter that inherits only the environment variables it needs to find its libraries."""
    kept = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

    def place() -> None:
        os.dup2(control, CONTROL)

    command = [sys.executable, "-m", "opc_ros.policies.worker.nursery", *(["--allow-code"] if allow_code else [])]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, pass_fds=(CONTROL,), preexec_fn=place, close_fds=True
    )
