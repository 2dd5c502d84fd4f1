"""The depot's web server, in its own thread."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opc_ros.errors import SetupError
from opc_ros.transfer.call import HEADER, LARGEST_BODY
from opc_ros.transfer.depot import Depot

START_S = 10.0
MOST_AT_ONCE = 64  # further requests are told to try again


class DepotServer:
    """Serves until it is closed; it binds the socket on creation, so that a port in use is noticed at once."""

    def __init__(self, depot: Depot, host: str = "0.0.0.0", port: int = 0) -> None:
        app = Starlette(routes=[Route("/{path:path}", _endpoint(depot), methods=["GET", "POST", "PUT"])])
        self._socket = _listen(host, port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._thread = threading.Thread(
            target=lambda: self._server.run(sockets=[self._socket]), name="depot", daemon=True
        )
        self._thread.start()
        deadline_s = time.monotonic() + START_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        if not self._server.started:
            raise SetupError("depot: the web server did not start; its log says why")

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5.0)
        self._socket.close()


def _endpoint(depot: Depot):  # type: ignore[no-untyped-def]  # Starlette's own type is wider than needed
    async def answer(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > LARGEST_BODY:
                return Response(b'{"error": "too many bytes at once"}', status_code=413)
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        envelope = request.headers.get(HEADER, "")
        found = await run_in_threadpool(depot.answer, request.method, target, envelope, body)
        return Response(found.body, status_code=found.status)

    return answer


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise SetupError(f"depot: cannot listen on {host}:{port}: {error.strerror or error}") from error
    listening.listen()
    return listening
