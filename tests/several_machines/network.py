"""Machines made of namespaces on one computer, and the network between them: lossy, slow or cut, as a test needs it.

Each machine has a network, a /dev/shm and a host name of its own, and cannot see the others' files. The network is a
switch in this process between their TAP devices, so it can lose and delay frames even if the kernel has no netem. It
carries no multicast, like most wireless networks and VPNs.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
_CLONE_NEWNET = 0x40000000
_LARGEST_FRAME = 65536
_BROADCAST = b"\xff" * 6
_ARP = b"\x08\x06"


def why_not() -> str:
    """Why such machines are impossible here; empty if they are not."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "unshare", "nsenter", "mount"):
        if shutil.which(program) is None:
            return f"there is no {program}; install iproute2 and util-linux"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is not there or may not be used"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, text=True, check=False
    )
    return f"namespaces are not allowed: {tried.stderr.strip()}" if tried.returncode else ""


@dataclass(slots=True)
class Weather:
    """What the network does to frames to and from one machine."""

    is_cut: bool = False
    loss: float = 0.0  # share of the frames
    delay_s: float = 0.0
    jitter_s: float = 0.0


@dataclass(slots=True)
class Machine:
    """One machine: processes run in it with `run` and `start`, and find their files below `here`."""

    name: str
    address: str
    here: Path  # the path of its own files, as it sees it
    files: Path  # the same files, seen from outside
    holder: subprocess.Popen[bytes]
    tap: int
    weather: Weather = field(default_factory=Weather)

    def command(self, words: Sequence[str], cwd: Path | None = None) -> list[str]:
        inside = ["--wd=" + str(cwd)] if cwd else []
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--mount", "--uts", *inside, "--", *words]

    def run(self, words: Sequence[str], *, cwd: Path | None = None, timeout_s: float = 60.0) -> str:
        """Its output; an error says what went wrong."""
        done = subprocess.run(self.command(words, cwd), capture_output=True, text=True, timeout=timeout_s, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(words)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(
        self, words: Sequence[str], log: Path, *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            return subprocess.Popen(
                self.command(words, cwd),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )


@contextlib.contextmanager
def network(folder: Path, names: Sequence[str], *, seed: int = 0) -> Iterator[dict[str, Machine]]:
    """Connected machines by name; their files stay below folder/machines/NAME when they are gone."""
    machines: dict[str, Machine] = {}
    with contextlib.ExitStack() as held:
        for number, name in enumerate(names):
            machines[name] = _boot(held, folder, name, f"10.77.0.{number + 1}")
        switch = Switch(tuple(machines.values()), random.Random(seed))
        held.callback(switch.close)
        yield machines


def _boot(held: contextlib.ExitStack, folder: Path, name: str, address: str) -> Machine:
    here, files = folder / "here", folder / "machines" / name
    for path in (here, files):
        path.mkdir(parents=True, exist_ok=True)
    machine_id = folder / f"machine-id-{name}"
    machine_id.write_text(uuid.uuid4().hex + "\n")
    # Its own files over `here`, nothing over the folder with those of all machines; DDS must not take two machines for
    # one.
    steps = (
        f"mount --make-rprivate / && mount --bind '{files}' '{here}' && mount -t tmpfs none '{folder / 'machines'}'",
        "mount -t tmpfs none /dev/shm",
        f"if [ -e /etc/machine-id ]; then mount --bind '{machine_id}' /etc/machine-id; fi",
        f"hostname {name} && ip link set lo up && ip link set lo multicast on && echo ready && exec sleep infinity",
    )
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "--uts", "sh", "-c", " && ".join(steps)], stdout=subprocess.PIPE
    )
    held.callback(_end, holder)
    assert holder.stdout is not None
    if holder.stdout.readline() != b"ready\n":
        raise RuntimeError(f"{name}: its namespaces could not be made")
    tap = _open_tap(holder.pid, "eth0")
    held.callback(os.close, tap)
    machine = Machine(name, address, here, files, holder, tap)
    machine.run(["ip", "address", "add", f"{address}/24", "dev", "eth0"])
    machine.run(["ip", "link", "set", "eth0", "up"])
    return machine


def _end(holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait()


def _open_tap(pid: int, name: str) -> int:
    """A TAP device in another process's network namespace, which this thread enters for that time."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    theirs = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(theirs, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
        return tap
    finally:
        libc.setns(own, _CLONE_NEWNET)
        os.close(own)
        os.close(theirs)


class Switch:
    """Carries frames between machines, in a thread of its own."""

    def __init__(self, machines: Sequence[Machine], rng: random.Random) -> None:
        self._machines = {machine.tap: machine for machine in machines}
        self._rng = rng
        self._ports: dict[bytes, Machine] = {}  # by MAC address
        self._waiting: list[tuple[float, int, Machine, bytes]] = []
        self._numbers = itertools.count()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="switch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join()

    def _carry(self) -> None:
        while not self._is_closing.is_set():
            now_s = time.monotonic()
            until_s = self._waiting[0][0] - now_s if self._waiting else 0.2
            ready, _, _ = select.select(list(self._machines), [], [], min(max(until_s, 0.0), 0.2))
            for tap in ready:
                with contextlib.suppress(OSError):  # another thread read it first
                    self._take(self._machines[tap], os.read(tap, _LARGEST_FRAME))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, machine, frame = heapq.heappop(self._waiting)
                if not machine.weather.is_cut:
                    with contextlib.suppress(OSError):  # down, or its queue is full: as on any network
                        os.write(machine.tap, frame)

    def _take(self, sender: Machine, frame: bytes) -> None:
        target, source, kind = frame[:6], frame[6:12], frame[12:14]
        self._ports[source] = sender
        if target[0] & 1 and not (target == _BROADCAST and kind == _ARP):
            return
        known = self._ports.get(target)
        for receiver in [known] if known else [each for each in self._machines.values() if each is not sender]:
            self._send(sender, receiver, frame)

    def _send(self, sender: Machine, receiver: Machine, frame: bytes) -> None:
        ends = (sender.weather, receiver.weather)
        if any(end.is_cut or self._rng.random() < end.loss for end in ends):
            return
        delay_s = sum(end.delay_s + self._rng.uniform(0.0, end.jitter_s) for end in ends)
        heapq.heappush(self._waiting, (time.monotonic() + delay_s, next(self._numbers), receiver, frame))
