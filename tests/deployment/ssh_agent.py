"""An ssh agent with one key, speaking ssh-agent's protocol."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


class Agent:
    """Answers requests for identities (11) and signatures (13), one client at a time."""

    def __init__(self, path: Path, key: Ed25519PrivateKey) -> None:
        self.path = path
        self._key = key
        public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._blob = string(b"ssh-ed25519") + string(public)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Agent:
        self._socket.bind(str(self.path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                (size,) = struct.unpack(">I", client.recv(4))
                client.sendall(string(self._answer(client.recv(size))))

    def _answer(self, asked: bytes) -> bytes:
        if asked[0] == 11:
            return b"\x0c" + struct.pack(">I", 1) + string(self._blob) + string(b"bob@lab")
        (size,) = struct.unpack(">I", asked[1:5])
        rest = asked[5 + size :]
        (length,) = struct.unpack(">I", rest[:4])
        signature = self._key.sign(rest[4 : 4 + length])
        return b"\x0e" + string(string(b"ssh-ed25519") + string(signature))
