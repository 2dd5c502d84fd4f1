"""Race: which candidates may still be the best, how robot time was spent, and whether scores agree with reality."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route

from opc_ros.console.app import Console, Page, data_route
from opc_ros.console.pages.ranking import real_results

PAGE = Page("/race", "Race", "race.html")


def routes(console: Console) -> list[Route]:
    def race(request: Request) -> object:
        status = console.live.document("deployment", max_age_s=10.0)
        report = console.lab.report()
        scores = {} if report is None else {c["candidate_id"]: c for c in report["ranking"]["candidates"]}
        predicted = console.lab.predicted(real_results(console))
        rows = [
            {
                "candidate_id": asked["candidate_id"],
                "name": asked.get("name")
                or scores.get(asked["candidate_id"], {}).get("name", asked["candidate_id"][:12]),
                "state": asked["state"],
                "rung": asked["rung"],
                "score": scores.get(asked["candidate_id"], {}).get("score"),
                "real": asked["real"],
                "predicted": predicted.get(asked["candidate_id"]),
            }
            for asked in (status or {}).get("requests", [])
        ]
        real = real_results(console)
        # Candidates without results of their own are predicted from the score alone: this gives the gate's line.
        line = [
            {"score": scores[candidate_id]["score"], **expected}
            for candidate_id, expected in predicted.items()
            if candidate_id in scores and candidate_id not in real
        ]
        return {
            "is_heard": status is not None,
            "champion": (status or {}).get("champion", ""),
            "robot_time": (status or {}).get("race"),
            "candidates": rows,
            "expected": sorted(line, key=lambda point: point["score"]),
        }

    def agreement(request: Request) -> object:
        return {"agreement": console.lab.agreement_over_time()}

    return [data_route("/api/race", race), data_route("/api/race/agreement", agreement)]
