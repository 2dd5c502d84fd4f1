"""Calibration: each candidate that has run, against what the results of other families predicted for it."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.charts import Axis, draw_interval
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section

_RATES = Axis(0.0, 1.0, 4, 172)


def render_calibration(report: ScoringReport) -> str:
    checked = report.outlook.checked if report.outlook else ()
    if not checked:
        return ""
    inside = sum(each.is_inside for each in checked)
    rows = "".join(
        f'<tr><th scope="row">{escape(each.name)}</th>'
        f'<td class="expected"><span>{each.expected:.0%} ({100 * each.low:.0f} to {100 * each.high:.0f})</span>'
        f"{draw_interval(_RATES, each.expected, each.low, each.high)}</td>"
        f'<td class="number">{each.successes / each.trials:.0%}<small>{each.successes} of {each.trials}</small></td>'
        "</tr>"
        for each in checked
    )
    return (
        f"<p>{inside} of {len(checked)} candidates that have run succeeded about as often as predicted from the "
        "results of other families: within the 95% interval, which allows for the small number of episodes.</p>"
        '<div class="scroll" tabindex="0"><table class="checked"><thead><tr><th scope="col">Candidate</th>'
        '<th scope="col">Predicted</th><th scope="col" class="number">Observed</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


SECTION = Section("calibration", "Did predictions come true", place=25, render=render_calibration)
