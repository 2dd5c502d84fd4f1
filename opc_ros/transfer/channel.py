"""The robot's end of the channel to the lab's depot: one signed request, and one answer or a reason why not."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.parse
from typing import Any, Protocol

from opc_ros.deployment.keys import TextSigner
from opc_ros.errors import ConfigError, LabUnreachable, TransferError
from opc_ros.transfer.call import HEADER, LARGEST_BODY, describe_call, sign_call

TIMEOUT_S = 10.0
_SAID_NO = range(400, 500)


class Asking(Protocol):
    """The interface for asking the lab's depot."""

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes: ...


class DepotChannel:
    """Keeps its connection open between requests; after a lost connection the next request opens a new one."""

    def __init__(self, address: str, robot: str, signer: TextSigner, *, timeout_s: float = TIMEOUT_S) -> None:
        """`address` is http://host:port; a depot that is silent for `timeout_s` counts as gone."""
        parts = urllib.parse.urlsplit(address)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise ConfigError(f"depot {address!r}: expected http://HOST:PORT")
        self.address = address
        self._host, self._port = parts.hostname, parts.port or 80
        self._robot, self._signer, self._timeout_s = robot, signer, timeout_s
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The answer's body; raises LabUnreachable if nobody answers, and TransferError if the answer is an error."""
        envelope = sign_call(describe_call(self._robot, method, path, body), self._signer)
        with self._lock:
            try:
                status, answer = self._send(method, path, body, envelope)
            except (OSError, http.client.HTTPException) as error:
                self._hang_up()
                reason = str(error) or type(error).__name__
                raise LabUnreachable(f"the lab's depot at {self.address} does not answer: {reason}") from error
        if status == 200:
            return answer
        kind = TransferError if status in _SAID_NO else LabUnreachable
        raise kind(f"{self.address}{path}: {_reason(answer) or f'status {status}'}")

    def _send(self, method: str, path: str, body: bytes, envelope: str) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        self._connection.request(method, path, body, {HEADER: envelope, "Content-Type": "application/octet-stream"})
        response = self._connection.getresponse()
        answer = response.read(LARGEST_BODY + 1)
        if len(answer) > LARGEST_BODY:
            raise http.client.HTTPException("the answer is too long")
        return response.status, answer

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def ask_json(channel: Asking, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    """An answer that is a JSON object."""
    answer = channel.ask(method, path, body)
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise TransferError(f"{path}: the depot's answer cannot be read")
    return document


def _reason(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"])[:500]
    except (ValueError, KeyError, TypeError):
        return ""
