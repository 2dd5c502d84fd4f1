"""All other scores of each candidate, folded: the leaderboard shows only the score that ranks."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section
from opc_ros.scoring import find_metric


def render_other_scores(report: ScoringReport) -> str:
    others = [name for name in report.candidates[0].metrics if name != report.ranking.metric]
    if not others:
        return ""
    head = "".join(f'<th scope="col" class="number">{escape(find_metric(name).title)}</th>' for name in others)
    rows = "".join(
        f'<tr><th scope="row">{escape(candidate.name)}</th>'
        + "".join(f'<td class="number">{candidate.metrics[name]:.3f}</td>' for name in others)
        + "</tr>"
        for candidate in report.candidates
    )
    return (
        '<details><summary>Show all scores</summary><div class="scroll" tabindex="0">'
        '<table class="scores sortable"><thead><tr><th scope="col">Candidate</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


SECTION = Section("other-scores", "Other scores", place=33, render=render_other_scores)
