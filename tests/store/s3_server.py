"""A real S3 server as a process of its own, and a proxy before it that does what networks do.

The server is moto's (`pip install 'moto[s3]' flask flask-cors` into an environment of its own: its botocore wants an
older python-dateutil), found on the path or named by OPC_TEST_S3_SERVER. It keeps objects in memory and honours
conditional puts.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

BUCKET = "robots"
START_S = 120.0


def find_server() -> str | None:
    return os.environ.get("OPC_TEST_S3_SERVER") or shutil.which("moto_server")


@contextmanager
def run_server() -> Iterator[str]:
    """The address of a server with one empty bucket; the test is skipped where none is installed."""
    program = find_server()
    if program is None:
        pytest.skip("no S3 server: pip install 'moto[s3]' flask flask-cors, or set OPC_TEST_S3_SERVER")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_bucket(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_for_bucket(address: str, process: subprocess.Popen[bytes]) -> None:
    waiting = threading.Event()
    for _ in range(int(START_S / 0.1)):
        try:
            urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT"), timeout=10).close()
            return
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, "the S3 server ended by itself"
            waiting.wait(0.1)
    raise AssertionError(f"no S3 server within {START_S} s")


class FaultyProxy(ThreadingHTTPServer):
    """Forwards to the server; each fault waits in a queue for the next request of its method."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target.removeprefix("http://")
        self.faults: list[tuple[str, str]] = []  # method, what goes wrong
        self.seen: list[str] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, method: str) -> str:
        with self.lock:
            for number, (wanted, fault) in enumerate(self.faults):
                if wanted == method:
                    del self.faults[number]
                    self.seen.append(f"{method} {fault}")
                    return fault
        return ""


@contextmanager
def run_proxy(target: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(target)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FaultyProxy
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.take(self.command)
        if fault == "refuse":
            self._answer(503, [], b"")
            return
        if fault == "cut request":  # half of the body arrives, then the line is dead
            self._send_half(body)
            self._hang_up()
            return
        if fault == "slow":
            threading.Event().wait(0.5)
        status, headers, data = self._ask(body)
        if fault == "lose answer":  # done, but nobody learns of it
            self._hang_up()
        elif fault == "cut answer":
            self._answer(status, headers, data, sent=len(data) // 2)
            self._hang_up()
        else:
            self._answer(status, headers, data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815 - as its base asks for them

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=120)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return found

    def _send_half(self, body: bytes) -> None:
        host, _, port = self.server.target.partition(":")
        with socket.create_connection((host, int(port)), timeout=120) as line:
            head = f"{self.command} {self.path} HTTP/1.1\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            line.sendall(head.encode() + b"\r\n" + body[: len(body) // 2])

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, *, sent: int | None = None) -> None:
        self.send_response(status)
        length = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data if sent is None else data[:sent])

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *arguments: object) -> None:
        """Not to the terminal."""
