"""Reports: every stored scoring report, by link."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from opc_ros.console.app import Console, Page, data_route
from opc_ros.workflows.report_pages import report_headers

PAGE = Page("/reports", "Reports", "reports.html")


def routes(console: Console) -> list[Route]:
    def reports(request: Request) -> object:
        return {"reports": console.lab.reports()}

    def page(request: Request) -> Response:
        path = console.lab.report_page(request.path_params["name"])
        return FileResponse(path, media_type="text/html", headers=report_headers())

    def recording(request: Request) -> Response:
        """Reports link to files beside them; here such a link leads to the page of the episode."""
        return RedirectResponse(f"/episodes?id={quote(request.path_params['episode'])}")

    return [
        data_route("/api/reports", reports),
        Route("/reports/{name}", page),
        Route("/{folder:path}/{episode}.mcap", recording),
    ]
