"""Reports: every stored scoring report, by link."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from opc_ros.console.app import Console, Page, data_route

PAGE = Page("/reports", "Reports", "reports.html")
# A report is one self-contained file; it may render and do nothing else.
REPORT_HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}


def routes(console: Console) -> list[Route]:
    def reports(request: Request) -> object:
        return {"reports": console.lab.reports()}

    def page(request: Request) -> Response:
        path = console.lab.report_page(request.path_params["name"])
        return FileResponse(path, media_type="text/html", headers=REPORT_HEADERS)

    return [data_route("/api/reports", reports), Route("/reports/{name}", page)]
