"""The console as a web application: pages, their data, and one stream of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp

from opc_ros.console.commands import Commands, NoLab
from opc_ros.console.guarding import Guarded, new_token
from opc_ros.console.lab import ConsoleLab
from opc_ros.console.live import LiveView
from opc_ros.errors import EpisodeNotFound, OpcError

HERE = Path(str(files("opc_ros.console")))
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Page:
    """One entry of the console's menu."""

    path: str
    title: str
    template: str


@dataclass(frozen=True, slots=True)
class Console:
    """What every page gets to work with."""

    live: LiveView
    lab: ConsoleLab
    commands: Commands = field(default_factory=NoLab)
    token: str = field(default_factory=new_token)


def build_app(console: Console, *, hosts: frozenset[str] = LOOPBACK, needs_token_to_read: bool = False) -> ASGIApp:
    """The application; `hosts` are the host names it serves."""
    from opc_ros.console.pages import decisions, episodes, now, race, ranking, reports

    modules = (now, ranking, decisions, episodes, race, reports)
    templates = Jinja2Templates(directory=HERE / "templates")  # autoescape applies to .html
    pages = tuple(module.PAGE for module in modules)

    def show(page: Page) -> Route:
        def answer(request: Request) -> Response:
            context = {
                "page": page,
                "pages": pages,
                "token": console.token,
                "can_sign": console.commands.takes_statements,
            }
            return templates.TemplateResponse(request, page.template, context)

        return Route(page.path, answer)

    routes: list[Route | Mount] = [show(page) for page in pages]
    for module in modules:
        routes += module.routes(console)
    routes.append(Mount("/static", StaticFiles(directory=HERE / "static")))
    app = Starlette(routes=routes, exception_handlers={OpcError: _refused, HTTPException: _problem})
    return Guarded(app, token=console.token, hosts=hosts, needs_token_to_read=needs_token_to_read)


def data_route(path: str, make: Callable[[Request], object], *, methods: tuple[str, ...] = ("GET",)) -> Route:
    """A route that returns the result of `make` as JSON, computed in a worker thread."""

    async def answer(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(make, request))

    return Route(path, answer, methods=list(methods))


def action_route(path: str, act: Callable[[dict[str, object]], object], *, never_waits: bool = False) -> Route:
    """A POST route that passes its JSON object to `act`.

    With `never_waits` it runs at once. Everything else runs in a worker thread, and a slow disk or a silent scheduler
    may be holding up all of those.
    """

    async def answer(request: Request) -> Response:
        try:
            body = await request.json()
        except ValueError:
            return JSONResponse({"error": "expected a JSON object"}, 400)
        if not isinstance(body, dict):
            return JSONResponse({"error": "expected a JSON object"}, 400)
        return JSONResponse(act(body) if never_waits else await run_in_threadpool(act, body))

    return Route(path, answer, methods=["POST"])


def text_field(body: dict[str, object], name: str, *, longest: int = 200) -> str:
    """A short string field of a posted object."""
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > longest:
        raise OpcError(f"{name}: expected a text of at most {longest} characters")
    return value


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, EpisodeNotFound) else 409)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)
