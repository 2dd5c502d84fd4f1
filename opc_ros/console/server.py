"""The console's web server, in a thread of its own."""

from __future__ import annotations

import errno
import socket
import threading
import time

import uvicorn

from opc_ros.console.app import LOOPBACK, Console, build_app
from opc_ros.console.guarding import is_loopback
from opc_ros.errors import SetupError

START_S = 10.0
PORTS_TRIED = 20


class ConsoleServer:
    """Serves until stopped; the socket is bound on construction, so that a port conflict is noticed at once."""

    def __init__(self, console: Console, host: str = "127.0.0.1", port: int = 0) -> None:
        is_open = not is_loopback(host)
        hosts = frozenset({host, *LOOPBACK, *((socket.gethostname(), *_addresses()) if is_open else ())})
        app = build_app(console, hosts=hosts, needs_token_to_read=is_open)
        self._socket = _listen(host, port)
        # Event streams never end by themselves, so open pages are disconnected after a second.
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="console", daemon=True)
        shown = f"[{host}]" if ":" in host else host
        suffix = f"?token={console.token}" if is_open else ""
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}/{suffix}"

    def start(self) -> str:
        """Start serving; returns the address to open."""
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self._server.started:
            raise SetupError("console: the web server did not start; its log says why")
        return self.address

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self._socket.close()

    def _serve(self) -> None:
        # Signals are handled by the main program.
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._server.run(sockets=[self._socket])


def _listen(host: str, port: int) -> socket.socket:
    """The requested port or one of the next few, so that two labs on one machine get a page each."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = range(port, min(port + PORTS_TRIED, 65536)) if port else (0,)
    for tried in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, tried))
            listening.listen()
            return listening
        except OSError as error:
            listening.close()
            if error.errno != errno.EADDRINUSE or tried == ports[-1]:
                raise SetupError(f"console: cannot listen on {host}:{tried}: {error.strerror or error}") from error
    raise SetupError(f"console: no port to listen on from {port} on")


def _addresses() -> list[str]:
    """This machine's own addresses, accepted as host names when listening beyond loopback."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        return []
