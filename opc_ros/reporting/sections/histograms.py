"""Mean Q of each episode, successes against failures, for each candidate."""

from __future__ import annotations

from html import escape

from opc_ros.ranking.forecast import is_of_q
from opc_ros.reporting.charts import draw_histogram
from opc_ros.reporting.parts import fold
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section

SHOWN_HISTOGRAMS = 12


def render_histograms(report: ScoringReport) -> str:
    if not is_of_q(report.ranking):
        return ""
    key = (
        '<p class="key"><span>'
        '<svg viewBox="0 0 30 12" aria-hidden="true"><path class="success" d="M0 11V3H30V11"/></svg>'
        'successes</span><span><svg viewBox="0 0 30 12" aria-hidden="true"><path class="failure" d="M0 6H30"/></svg>'
        "failures</span></p>"
    )
    charts = [
        f"<figure><h3>{escape(candidate.name)}</h3>"
        + draw_histogram(
            candidate.successes_per_bin,
            candidate.failures_per_bin,
            candidate.bin_range,
            summary=f"Histogram of mean Q per episode for {candidate.name}, successes against failures.",
        )
        + "</figure>"
        for candidate in report.candidates
    ]
    sentence = "Mean Q of each episode, as shares of all successes and all failures: the further apart, the better."
    intro = f'<p class="soft">{sentence}</p>'
    shown = f'<div class="multiples">{"".join(charts[:SHOWN_HISTOGRAMS])}</div>'
    rest = charts[SHOWN_HISTOGRAMS:]
    folded = fold(len(rest), f'<div class="multiples">{"".join(rest)}</div>') if rest else ""
    return intro + key + shown + folded


SECTION = Section("histograms", "Q on successes and failures", place=40, render=render_histograms)
