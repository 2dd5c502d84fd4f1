"""Score against true success, if that is known, with the least-squares line."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.charts import LabelledPoint, draw_scatter
from opc_ros.reporting.parts import count, metric_title
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section

SHOWN_WHISKERS = 40


def render_agreement(report: ScoringReport) -> str:
    pairs = [
        (ranked, candidate.known_success)
        for ranked, candidate in zip(report.ranking.candidates, report.candidates, strict=True)
        if candidate.known_success
    ]
    if not pairs:
        return ""
    is_crowded = len(pairs) > SHOWN_WHISKERS
    points = [
        LabelledPoint(ranked.name, ranked.score, known.share, None if is_crowded else ranked.score_interval)
        for ranked, known in pairs
    ]
    line: list[tuple[float, float]] = []
    band: list[tuple[float, float, float]] = []
    words = f"True success is known for {count(len(pairs), 'candidate')}. "
    if report.agreement is None:
        words += escape(report.agreement_note[:1].upper() + report.agreement_note[1:]) + "."
    else:
        agreement = report.agreement
        low, high = min(point.x for point in points), max(point.x for point in points)
        xs = [low + (high - low) * index / 40 for index in range(41)]
        lows, highs = agreement.line.band(xs, report.ranking.confidence)
        line = list(zip(xs, agreement.line.predict(xs).tolist(), strict=True))
        band = list(zip(xs, lows.tolist(), highs.tolist(), strict=True))
        regrets = ", ".join(f"{value:.1%} at {k}" for k, value in agreement.regret)
        words += (
            f"R² {agreement.line.r_squared:.2f}, rank correlation {agreement.spearman:.2f} (Spearman), "
            f"{agreement.kendall:.2f} (Kendall). Success lost by trusting the score: {regrets}."
        )
    chart = draw_scatter(
        points,
        line=line,
        band=band,
        x_title=metric_title(report),
        y_title="true success",
        summary=f"Scatter plot. {words}",
    )
    caption = f"The least-squares line with its {report.ranking.confidence:.0%} band"
    caption += "." if is_crowded else "; whiskers are score intervals."
    return f"<p>{words}</p><figure>{chart}<figcaption>{caption}</figcaption></figure>"


SECTION = Section("agreement", "Score and true success", place=30, render=render_agreement)
