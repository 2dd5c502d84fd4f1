"""The receiving end of a webhook: an HTTP server on loopback that keeps what it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """What arrived, and how many posts to refuse first."""

    def __init__(self, refusals: int = 0) -> None:
        self.posts: list[Any] = []
        self.refusals = refusals
        self.came = threading.Semaphore(0)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                refused = receiver.refusals > 0
                receiver.refusals -= refused
                self.send_response(503 if refused else 200)
                self.end_headers()
                if not refused:
                    receiver.posts.append(json.loads(body))
                    receiver.came.release()

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hooks/secret"


@contextmanager
def receiving(refusals: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(refusals)
    thread = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()
