"""A real S3 server as a process of its own, and a proxy in front of it that does what networks do.

The server is SeaweedFS, which the `dev` packages bring as a wheel: it keeps objects on disk, checks signatures and
honours conditional puts. OPC_TEST_S3_SERVER may name another `weed`.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BUCKET = "robots"
START_S = 120.0
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "a-key-of-tests",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
    "AWS_REGION": "us-east-1",
}


def find_server() -> Path:
    return Path(os.environ.get("OPC_TEST_S3_SERVER") or Path(sys.executable).parent / "weed")


@contextmanager
def run_server() -> Iterator[str]:
    """The address of a server with one empty bucket, which only knows the credentials above."""
    program = find_server()
    assert program.exists(), f"{program} is missing: `make setup` installs it"
    with tempfile.TemporaryDirectory(prefix="s3_server_") as folder:
        # Another process may take a port before the server has it: then it exits, and others are tried.
        for _ in range(5):
            process, address = _start(program, Path(folder))
            try:
                if _wait_for_bucket(address, process):
                    yield address
                    return
            finally:
                process.kill()  # asked politely, it waits for requests that never come
                process.wait()
        raise AssertionError(f"the S3 server ended by itself: {Path(folder, 'log').read_text()[-2000:]}")


def _start(program: Path, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    ports = _free_ports(8)
    services = ("master", "volume", "filer", "s3")
    options = [f"-{name}.port={port}" for name, port in zip(services, ports[:4], strict=True)]
    options += [f"-{name}.port.grpc={port}" for name, port in zip(services, ports[4:], strict=True)]
    options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-master.telemetry=false"]
    options += [f"-filer.localSocket={folder}/filer", f"-s3.localSocket={folder}/s3"]
    options += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-logtostderr", "server", "-filer", "-s3", *options],
            stdout=log,
            stderr=log,
            env={**os.environ, **CREDENTIALS},
        )
    return process, f"http://127.0.0.1:{ports[3]}"


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _wait_for_bucket(address: str, process: subprocess.Popen[bytes]) -> bool:
    """True once an object can be put, which creates the bucket; False if the server has ended."""
    import obstore

    bucket = obstore.store.S3Store(
        BUCKET,
        endpoint=address,
        access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region=CREDENTIALS["AWS_REGION"],
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    waiting = threading.Event()
    for _ in range(int(START_S / 0.1)):
        if process.poll() is not None:
            return False
        try:
            obstore.put(bucket, "probe", b"x")
            obstore.delete(bucket, "probe")
        except Exception:  # it answers with errors of many kinds until all of its parts are up
            waiting.wait(0.1)
        else:
            return True
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
        if fault == "cut request":  # half of the body arrives, then the connection is dead
            self._send_half(body)
            self._hang_up()
            return
        if fault == "slow":
            threading.Event().wait(0.5)
        status, headers, data = self._ask(body)
        if fault == "lose answer":  # done, but the client never learns of it
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
        """Do not log to the terminal."""
