"""Pieces of HTML that several sections of the report use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from opc_ros.reporting.report import Group, ScoringReport
from opc_ros.scoring import find_metric

SHOWN = 25  # rows of a table before the rest is collapsed


def folded_table(intro: str, head: str, rows: Sequence[str], css: str) -> str:
    def table(part: Iterable[str]) -> str:
        body = "".join(part)
        return f'<div class="scroll"><table class="{css}"><thead>{head}</thead><tbody>{body}</tbody></table></div>'

    rest = rows[SHOWN:]
    folded = fold(len(rest), table(rest)) if rest else ""
    return intro + table(rows[:SHOWN]) + folded


def fold(count: int, content: str) -> str:
    return f"<details><summary>Show the other {count:,}</summary>{content}</details>"


def group_table(title: str, groups: Sequence[Group]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(group.name) or "not given"}</th><td class="number">{group.episodes:,}</td>'
        f"<td>{bar(group.successes / group.episodes)}</td></tr>"
        for group in groups[:SHOWN]
    )
    return (
        f'<table><thead><tr><th scope="col">{title}</th><th scope="col" class="number">Episodes</th>'
        f'<th scope="col">Success</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def definitions(facts: Sequence[tuple[str, Any]]) -> str:
    return "<dl>" + "".join(f"<dt>{term}</dt><dd>{value}</dd>" for term, value in facts) + "</dl>"


def bar(share: float) -> str:
    return f'<div class="share"><div class="bar"><i style="width:{share:.1%}"></i></div><span>{share:.0%}</span></div>'


def metric_title(report: ScoringReport) -> str:
    return find_metric(report.ranking.metric).title


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
