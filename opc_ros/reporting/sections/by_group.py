"""Scores of the top candidates by robot and by object set."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from opc_ros.reporting.outlook import GroupScore
from opc_ros.reporting.parts import metric_title
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section


def render_groups(report: ScoringReport) -> str:
    parts = (("By robot", report.by_robot), ("By object set", report.by_object_set))
    tables = "".join(f"<h3>{title}</h3>{_table(report, groups)}" for title, groups in parts if groups)
    if not tables:
        return ""
    intro = (
        f'<p class="soft">{metric_title(report)} by part of the set, to show candidates that are good on only one. '
        "Small parts are noisy; &ndash; means that a part has no success, no failure, or too few of them.</p>"
    )
    return intro + tables


def _table(report: ScoringReport, groups: Sequence[GroupScore]) -> str:
    head = "".join(
        f'<th scope="col" class="number">{escape(group.group) or "not given"}'
        f"<small>{group.successes} of {group.episodes}</small></th>"
        for group in groups
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(ranked.name)}</th>'
        + "".join(f'<td class="number">{_figure(group.scores[row])}</td>' for group in groups)
        + "</tr>"
        for row, ranked in enumerate(report.ranking.candidates[: len(groups[0].scores)])
    )
    return (
        '<div class="scroll" tabindex="0"><table class="by-group sortable"><thead><tr><th scope="col">Candidate</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _figure(score: float | None) -> str:
    return "&ndash;" if score is None else f"{score:.3f}"


SECTION = Section("by-group", "Scores by robot and object set", place=35, render=render_groups)
