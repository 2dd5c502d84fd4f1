"""Access control: host, origin, token and request rate are checked before any page runs."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "opc_console"
TOKEN_HEADER = "x-opc-console"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
LARGEST_BODY = 1 << 20
REQUESTS_A_SECOND = 200
BURST = 400


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guarded:
    """Wraps the application.

    Every answer carries strict headers. A request must name a host that this console serves, so that no foreign page
    can reach it by pointing a domain of its own at it. A request that changes something must come from the console's
    own pages: same origin, and the token those pages carry. Off loopback, reading needs the token too (`/?token=...`
    sets it as a cookie).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: frozenset[str],
        needs_token_to_read: bool,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._needs_token_to_read = needs_token_to_read
        self._now_s = now_s
        self._allowance = float(BURST)
        self._counted_s = now_s()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, self._with_headers(send))
            return
        await self._app(scope, _bounded(receive), self._with_headers(send))

    def _refusal(self, request: Request) -> Response | None:
        if not self._takes_turn():
            return JSONResponse({"error": "too many requests; try again in a second"}, 429)
        if (request.url.hostname or "") not in self._hosts:
            return JSONResponse({"error": f"this console does not serve {request.url.hostname!r}"}, 421)
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self._token.encode()):
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(
                COOKIE, self._token, httponly=True, samesite="strict", secure=request.url.scheme == "https"
            )
            return answer
        if self._needs_token_to_read and not self._same(request.cookies.get(COOKIE, "")):
            return JSONResponse({"error": "open the address the console printed at its start; it carries a token"}, 401)
        if request.method not in ("GET", "HEAD") and not self._is_from_own_page(request):
            return JSONResponse({"error": "this page is out of date or not the console's own; reload it"}, 403)
        return None

    def _is_from_own_page(self, request: Request) -> bool:
        origin = request.headers.get("origin", "")
        own = f"{request.url.scheme}://{request.url.netloc}"
        return origin == own and self._same(request.headers.get(TOKEN_HEADER, ""))

    def _same(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _takes_turn(self) -> bool:
        now_s = self._now_s()
        self._allowance = min(float(BURST), self._allowance + (now_s - self._counted_s) * REQUESTS_A_SECOND)
        self._counted_s = now_s
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                set_already = {name.lower() for name, _ in given}
                message["headers"] = given + [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in set_already
                ]
            await send(message)

        return send_with_headers


def _bounded(receive: Receive) -> Receive:
    """Cut off a request body that is too large."""
    seen = 0

    async def receive_bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > LARGEST_BODY:
                return {"type": "http.disconnect"}
        return message

    return receive_bounded
