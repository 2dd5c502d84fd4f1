"""Race: who may still be the best, how much robot time went where, and whether scores agree with reality."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route

from opc_ros.console.app import Console, Page, data_route

PAGE = Page("/race", "Race", "race.html")


def routes(console: Console) -> list[Route]:
    def race(request: Request) -> object:
        status = console.live.document("deployment", max_age_s=10.0)
        report = console.lab.report()
        scores = {} if report is None else {c["candidate_id"]: c for c in report["ranking"]["candidates"]}
        rows = [
            {
                "candidate_id": asked["candidate_id"],
                "name": scores.get(asked["candidate_id"], {}).get("name", asked["candidate_id"][:12]),
                "state": asked["state"],
                "rung": asked["rung"],
                "score": scores.get(asked["candidate_id"], {}).get("score"),
                "real": asked["real"],
            }
            for asked in (status or {}).get("requests", [])
        ]
        return {"is_heard": status is not None, "champion": (status or {}).get("champion", ""), "candidates": rows}

    return [data_route("/api/race", race)]
