"""Run a system's nodes as child processes: stream their logs, restart those that may be, and leave none behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Protocol

from opc_ros.bringup.shared_memory import sweep_shared_memory

# Time that each signal has before the next, harder one.
PATIENCE: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 4.0),
    (signal.SIGTERM, 2.0),
    (signal.SIGKILL, 2.0),
)


SERVED_S = 1.0  # how much later nodes that serve are stopped than those they serve
RESTART_AFTER_S = 5.0  # a node that fails sooner than this cannot start at all
RESTART_WINDOW_S = 600.0
MOST_RESTARTS = 3  # within that time


class Startable(Protocol):
    """What a supervisor runs: a NodeSpec, or anything else with a name and a command line."""

    @property
    def label(self) -> str: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables in addition to the caller's."""
        ...

    def command(self) -> list[str]: ...


class Supervisor:
    """The running nodes of one system.

    A node that ends with exit 0 has done its work; with any other code it has failed, and is restarted if it is one of
    those that may be.
    """

    def __init__(
        self,
        nodes: Sequence[Startable],
        write: Callable[[str], None],
        *,
        environment: Mapping[str, str] | None = None,
        is_restarted: Callable[[Startable], bool] = lambda node: False,
        is_servant: Callable[[Startable], bool] = lambda node: False,
    ) -> None:
        """`write` gets one log line at a time, from several threads; `environment` adds to the caller's.

        `is_restarted` says which nodes are restarted when they die, a few times at most; `is_servant` says which nodes
        are not waited for, because they never end by themselves.
        """
        self._is_servant = is_servant
        self._is_restarted = is_restarted
        self._restarts: dict[str, list[float]] = {}  # label -> times at which it was restarted
        self._asked: set[int] = set()  # processes that were asked to end
        self._started_s: dict[int, float] = {}  # process -> when it was started
        self._environment = {**os.environ, **(environment or {})}
        self._nodes = tuple(nodes)
        self._write = write
        self._children: list[tuple[Startable, subprocess.Popen[str]]] = []
        self._readers: list[threading.Thread] = []
        self._width = max((len(node.label) for node in self._nodes), default=0)

    def __enter__(self) -> Supervisor:
        sweep_shared_memory()
        try:
            for node in self._nodes:
                self._start(node)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, *, keep_going: bool = False, until: Callable[[], bool] = lambda: False) -> int:
        """Wait until all but servants have ended, one has failed, or `until` holds; returns the exit code for all."""
        reported: set[int] = set()
        has_failed = False
        while not self._is_all_done(reported) and not until():
            for node, child in self._children:
                code = child.poll()
                if code is None or child.pid in reported:
                    continue
                if code != 0 and self._start_again(node, child, code):
                    break  # the list of children has changed
                reported.add(child.pid)
                self._say(node, "finished" if code == 0 else f"failed: {_describe_exit(code)}; it is not restarted")
                has_failed = has_failed or code != 0
                if code != 0 and not keep_going:
                    return 1
            time.sleep(0.05)
        return int(has_failed)

    def _is_all_done(self, reported: set[int]) -> bool:
        awaited = [child.pid for node, child in self._children if not self._is_servant(node)]
        return reported.issuperset(awaited or (child.pid for _, child in self._children))

    def _start_again(self, node: Startable, child: subprocess.Popen[str], code: int) -> bool:
        """Restart a node that ran for a while and died; one that cannot even start is left to a person."""
        now_s = time.monotonic()
        recent = [at_s for at_s in self._restarts.get(node.label, []) if now_s - at_s < RESTART_WINDOW_S]
        has_run = code < 0 or now_s - self._started_s[child.pid] >= RESTART_AFTER_S
        if not (self._is_restarted(node) and has_run and len(recent) < MOST_RESTARTS):
            return False
        self._restarts[node.label] = [*recent, now_s]
        self._say(node, f"failed: {_describe_exit(code)}; starting it again ({len(recent) + 1} of {MOST_RESTARTS})")
        _signal_group(child.pid, signal.SIGKILL)  # its children may still hold its devices
        self._children.remove((node, child))
        self._start(node)
        return True

    @property
    def failed(self) -> dict[str, str]:
        """Nodes that ended with anything but exit 0, by label, and how they ended."""
        codes = {node.label: child.poll() for node, child in self._children}
        return {label: _describe_exit(code) for label, code in codes.items() if code}

    @property
    def is_done(self) -> bool:
        """Whether every node has ended."""
        return all(child.poll() is not None for _, child in self._children)

    def stop(self) -> None:
        """Ask every node to end, players before the nodes that serve them, then insist."""
        self._ask_served()
        for signum, patience_s in PATIENCE:
            running = [(node, child) for node, child in self._children if child.poll() is None]
            if not running:
                break
            for node, child in running:
                if signum is signal.SIGINT:
                    # Once, and only the node, which ends its own children; a second signal would interrupt that.
                    if child.pid not in self._asked:
                        self._asked.add(child.pid)
                        child.send_signal(signum)
                    continue
                self._say(node, f"still running: sending {signum.name}")
                _signal_group(child.pid, signum)
            deadline = time.monotonic() + patience_s
            for _, child in running:
                _wait_until(child, deadline)
        for _, child in self._children:
            # A node's children share its process group; none may outlive it.
            _signal_group(child.pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join(timeout=1.0)

    def _ask_served(self) -> None:
        """Stop players before their arm, gateway and recorder, so that none of them waits for one that is gone."""
        served = [child for node, child in self._children if not self._is_servant(node) and child.poll() is None]
        if len(served) == len(self._children):
            return
        for child in served:
            self._asked.add(child.pid)
            child.send_signal(signal.SIGINT)
        deadline = time.monotonic() + SERVED_S
        for child in served:
            _wait_until(child, deadline)

    def _start(self, node: Startable) -> None:
        with _signals_held_back():
            child = subprocess.Popen(
                node.command(),
                env={**self._environment, **node.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C only reaches the supervisor, which then stops the nodes in order
                preexec_fn=_end_with_parent,
            )
            self._children.append((node, child))
            self._started_s[child.pid] = time.monotonic()
        assert child.stdout is not None
        reader = threading.Thread(target=self._stream, args=(node, child.stdout), daemon=True)
        reader.start()
        self._readers.append(reader)
        self._say(node, f"started, process {child.pid}")

    def _stream(self, node: Startable, stream: IO[str]) -> None:
        for line in stream:
            self._say(node, line.rstrip("\n"))

    def _say(self, node: Startable, text: str) -> None:
        self._write(f"[{node.label:<{self._width}}] {text}")


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Delay Ctrl-C during a fork: raised in the hooks that Python calls around one, it would be swallowed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    for signum, handler in before.items():
        if callable(handler):
            signal.signal(signum, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        for number in came:
            signal.raise_signal(number)


def _end_with_parent() -> None:
    """In the child: die with the supervisor, even if that gets SIGKILL; accept SIGINT even in a shell's background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _signal_group(pid: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signum)


def _wait_until(child: subprocess.Popen[str], deadline: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=max(0.0, deadline - time.monotonic()))


def _describe_exit(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


def heed_signals() -> None:
    """Treat SIGINT and SIGTERM as Ctrl-C, even in a shell's background, which ignores SIGINT by default."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.default_int_handler)


def write_line(line: str) -> None:
    """Write one whole line to standard output, so that lines of different nodes do not mix."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
