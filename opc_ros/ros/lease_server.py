"""The gateway's end of its socket: one commander at a time, and only commands that its lease allows."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opc_ros.deployment.arm_lease import ArmLease, LeaseDesk
from opc_ros.errors import OpcError, PermitRefused
from opc_ros.ros import lease_socket as wire

LOOK_S = 0.02
LONGEST_REASON = 500
MOST_CONNECTIONS = 16
LONGEST_LAY_OUT_S = 600.0


class Commanded(Protocol):
    """The arm behind the gateway."""

    def follow(self, cdr: bytes, lease: ArmLease) -> None:
        """Follow a serialised trajectory; raises OpcError if it must not pass."""
        ...

    def grip(self, aperture_m: float) -> None: ...

    def beat(self) -> None: ...

    def lay_out(self, seed: int, timeout_s: float) -> None:
        """Fill a simulated bin; blocks until done, and raises OpcError."""
        ...

    def say_goodbye(self) -> None:
        """Tell the guard that nobody commands the arm any more, as intended."""
        ...

    def hold(self) -> None:
        """Hold the arm where it is."""
        ...


@dataclass(slots=True)
class Holder:
    """Who holds the lease now."""

    end: socket.socket
    lease: ArmLease
    heard_s: float


class LeaseServer:
    """Uses one thread to accept connections, one for each connection, and one to watch the lease."""

    def __init__(
        self,
        folder: Path,
        desk: LeaseDesk,
        arm: Commanded,
        *,
        silence_s: float,
        stale_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """A commander that is silent for `silence_s` loses its lease; a command older than `stale_s` is dropped."""
        self._desk, self._arm, self._tell = desk, arm, tell
        self._silence_s, self._stale_s = silence_s, stale_s
        self._lock = threading.RLock()
        self._holder: Holder | None = None
        self._ends: set[socket.socket] = set()
        self._is_closing = threading.Event()
        self._server = wire.listen(folder)
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._accept, self._look_after)]
        for thread in self._threads:
            thread.start()

    @property
    def holder(self) -> str:
        """Whose lease allows the arm to move now; empty if there is none."""
        holder = self._holder
        return holder.lease.holder if holder is not None else ""

    def close(self) -> None:
        self._is_closing.set()
        with self._lock:
            ends = [self._server, *self._ends]
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=1.0)
        self._server.close()

    def _accept(self) -> None:
        while not self._is_closing.is_set():
            try:
                end, _ = self._server.accept()
            except OSError:
                return
            try:
                wire.refuse_strangers(end)
            except OSError as error:
                self._refuse(f"connection to the gateway: {error}")
                end.close()
                continue
            with self._lock:
                is_full = len(self._ends) >= MOST_CONNECTIONS
                if not is_full:
                    self._ends.add(end)
            if is_full:
                self._refuse(f"connection to the gateway: {MOST_CONNECTIONS} are open already")
                end.close()
                continue
            threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        challenge = secrets.token_hex(16)
        try:
            _answer(end, wire.CHALLENGE, challenge)
            while message := end.recv(wire.LARGEST):
                if message[:1] == wire.LEASE:
                    # A challenge is used up, whatever the outcome.
                    shown, challenge = challenge, secrets.token_hex(16)
                    reason = self._open(end, message[1:], shown)
                    _answer(end, wire.OPENED, json.dumps({"reason": reason, "challenge": challenge}))
                else:
                    self._obey(end, message)
        except OSError:
            pass  # the peer is gone, handled below
        except Exception as error:  # no message may end the gateway, however malformed
            self._refuse(f"a message to the gateway: {type(error).__name__}: {error}")
        finally:
            self._end(end, "the commander is gone")
            with self._lock:
                self._ends.discard(end)
            end.close()

    def _open(self, end: socket.socket, text: bytes, challenge: str) -> str:
        """Try to open a lease; returns why not, or nothing."""
        with self._lock:
            holder = self._holder
            if holder is not None and holder.end is not end:
                reason = f"arm lease: the arm is held under {holder.lease.holder}"
                self._refuse(reason)
                return reason
            self._holder = None
            try:
                lease = self._desk.open(text.decode("utf-8", errors="replace"), challenge)
            except PermitRefused as error:
                self._tell(str(error))
                return str(error)[:LONGEST_REASON]
            self._holder = Holder(end, lease, time.monotonic())
            return ""

    def _obey(self, end: socket.socket, message: bytes) -> None:
        kind, body = message[:1], message[1 + wire.COMMAND.size :]
        if len(message) < 1 + wire.COMMAND.size:
            self._refuse("a malformed message to the gateway")
            return
        number, sent_ns = wire.COMMAND.unpack_from(message, 1)
        with self._lock:
            holder = self._holder
            if holder is None or holder.end is not end:
                reason = "no lease, no motion: show a permit first"
                if kind != wire.BEAT:
                    self._refuse(reason)
            else:
                reason = self._desk.why_ended(holder.lease)
                if reason:
                    self._end(end, reason)
                elif kind != wire.END and not 0 <= time.monotonic_ns() - sent_ns <= self._stale_s * 1e9:
                    reason = f"a command is older than {self._stale_s:g} s, so it was dropped"
                else:
                    holder.heard_s = time.monotonic()
                    reason = self._pass_on(holder, kind, body, number)
        if reason:
            _answer(end, wire.REFUSED, reason[:LONGEST_REASON])

    def _pass_on(self, holder: Holder, kind: bytes, body: bytes, number: int) -> str:
        try:
            if kind == wire.BEAT:
                self._arm.beat()
                return ""
            if kind == wire.TRAJECTORY:
                self._arm.follow(body, holder.lease)
            elif kind == wire.GRIPPER:
                self._arm.grip(struct.unpack("<d", body)[0])
            elif kind == wire.LAY_OUT:
                threading.Thread(target=self._lay_out, args=(holder.end, body), daemon=True).start()
            elif kind == wire.END:
                self._holder = None
                self._arm.say_goodbye()
            else:
                return f"a command of kind {kind!r} is not known"
        except (OpcError, struct.error) as error:
            self._refuse(str(error))
            return str(error)
        holder.end.send(wire.TAKEN + wire.COMMAND.pack(number, 0), socket.MSG_DONTWAIT)
        return ""

    def _lay_out(self, end: socket.socket, body: bytes) -> None:
        reason = ""
        try:
            seed, timeout_s = struct.unpack("<Qd", body)
            is_sane = 0.0 < timeout_s <= LONGEST_LAY_OUT_S
            self._arm.lay_out(int(seed), float(timeout_s) if is_sane else LONGEST_LAY_OUT_S)
        except (OpcError, struct.error) as error:
            reason = str(error)
        with suppress(OSError):  # the commander may be gone
            _answer(end, wire.LAID_OUT, reason[:LONGEST_REASON])

    def _look_after(self) -> None:
        """End leases whose holder says nothing: by silence, by expiry, or by revocation."""
        while not self._is_closing.wait(LOOK_S):
            with self._lock:
                holder = self._holder
                if holder is None:
                    continue
                silence_s = time.monotonic() - holder.heard_s
                reason = self._desk.why_ended(holder.lease)
                if silence_s > self._silence_s:
                    reason = f"commander: not heard from for {silence_s:.2f} s, allowed {self._silence_s:.2f}"
                if reason:
                    self._end(holder.end, reason)

    def _end(self, end: socket.socket, reason: str) -> None:
        """Take the lease from its holder at this end, and hold the arm; on silence, the guard does so too."""
        with self._lock:
            holder = self._holder
            if holder is None or holder.end is not end:
                return
            self._holder = None
            self._arm.hold()
        if self._is_closing.is_set():
            return  # the gateway is closing, and every lease with it
        self._tell(f"the lease under {holder.lease.holder} has ended: {reason}")
        with suppress(OSError):  # the commander may be gone
            _answer(end, wire.ENDED, reason[:LONGEST_REASON])

    def _refuse(self, reason: str) -> None:
        self._desk.note_refusal(reason)
        self._tell(reason)


def _answer(end: socket.socket, kind: bytes, text: str) -> None:
    """Answer without waiting: a commander that does not read its answers must not block the gateway."""
    end.send(kind + text.encode(), socket.MSG_DONTWAIT)
