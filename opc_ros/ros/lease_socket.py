"""The socket between a commander and its arm's gateway: whole messages, on one machine, between processes of one user.

A Unix-domain SEQPACKET socket in a folder of mode 0700: no participant of any DDS domain can reach it, the kernel says
who is at the other end, messages keep their boundaries and order, a dead peer is noticed at once, and a message costs
microseconds.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opc_ros.errors import SetupError

NAME = "arm.sock"
LARGEST = 1 << 18  # bytes of one message; a trajectory of a thousand points fits
_PEER = struct.Struct("3i")  # process, user, group
COMMAND = struct.Struct("<Qq")  # number of the command, and the sender's monotonic time

# Messages from a commander, by their first byte.
LEASE, TRAJECTORY, GRIPPER, BEAT, LAY_OUT, END = b"L", b"T", b"G", b"B", b"O", b"E"
# Answers from the gateway.
CHALLENGE, OPENED, REFUSED, TAKEN, LAID_OUT, ENDED = b"c", b"l", b"r", b"t", b"o", b"e"


def listen(folder: Path) -> socket.socket:
    """Open the gateway's end; a socket left behind by a dead gateway is replaced."""
    _make_private(folder)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _short_path(folder) as path:
            (folder / NAME).unlink(missing_ok=True)
            server.bind(path)
        server.listen(8)
    except OSError as error:
        server.close()
        raise SetupError(f"{folder / NAME}: {error.strerror or error}") from error
    return server


def connect(folder: Path) -> socket.socket:
    """Open a commander's end; refuses to talk to a process of another user."""
    try:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with _short_path(folder) as path:
                client.connect(path)
            refuse_strangers(client)
        except BaseException:
            client.close()
            raise
    except OSError as error:
        raise SetupError(f"{folder / NAME}: {error.strerror or error}: is the arm's gateway running?") from error
    return client


def refuse_strangers(end: socket.socket) -> None:
    """Raise unless the process at the other end belongs to the same user, or to root."""
    process, user, _ = _PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user not in (os.getuid(), 0):
        raise PermissionError(f"process {process} of user {user} is at the other end, expected user {os.getuid()}")


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid():
            raise SetupError(f"{folder}: belongs to user {found.st_uid}, expected {os.getuid()}")
        if stat.S_IMODE(found.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise SetupError(f"{folder}: {error.strerror or error}") from error


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """A path for the socket that is short enough, however deep its folder: the kernel allows 107 characters."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)
