"""How often one candidate scores above another, and whether halves of the set agree."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section

SHOWN_BEATS = 12


def render_order(report: ScoringReport) -> str:
    ranked = report.ranking.candidates[:SHOWN_BEATS]
    if len(ranked) < 2:
        return ""
    head = "".join(f'<th scope="col" title="{escape(c.name, quote=True)}">{c.rank}</th>' for c in ranked)
    rows = []
    for row, candidate in enumerate(ranked):
        cells = "".join(
            '<td class="self">·</td>'
            if row == column
            else f'<td style="--p:{report.ranking.beats[row][column]:.0%}">{report.ranking.beats[row][column]:.0%}</td>'
            for column in range(len(ranked))
        )
        rows.append(f'<tr><th scope="row">{candidate.rank} {escape(candidate.name)}</th>{cells}</tr>')
    note = f" The first {len(ranked)} are shown." if len(report.candidates) > len(ranked) else ""
    halves = ""
    if report.stability is not None:
        stable = report.stability
        halves = (
            f"<p>Two random halves of the set agree about the order with a rank correlation of "
            f"{stable.spearman_mean:.2f} (in 95% of splits above {stable.spearman_low:.2f}) "
            f"and name the same best candidate in {stable.same_best:.0%} of splits.</p>"
        )
    return (
        f'{halves}<p class="soft">Probability that the candidate of a row scores above that of a column, by rank.'
        f"{note}</p>"
        f'<div class="scroll" tabindex="0"><table class="beats"><thead><tr><td class="self"></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


SECTION = Section("order", "How certain the order is", place=20, render=render_order)
