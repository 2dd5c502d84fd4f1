"""The report's figures: score against true success, Q by outcome, and score over training."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.charts import LabelledPoint, draw_histogram, draw_scatter, draw_training, format_number
from opc_ros.reporting.parts import count, fold, metric_title
from opc_ros.reporting.report import ScoringReport

SHOWN_HISTOGRAMS = 12
SHOWN_WHISKERS = 40


def draw_agreement(report: ScoringReport) -> str:
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
            f"{agreement.kendall:.2f} (Kendall). Success given up by trusting the score: {regrets}."
        )
    chart = draw_scatter(
        points,
        line=line,
        band=band,
        x_title=metric_title(report),
        y_title="true success",
        summary=f"Scatter plot. {words}",
    )
    caption = f"The line of least squares with its {report.ranking.confidence:.0%} band"
    caption += "." if is_crowded else "; whiskers are score intervals."
    return f"<p>{words}</p><figure>{chart}<figcaption>{caption}</figcaption></figure>"


def draw_histograms(report: ScoringReport) -> str:
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
    intro = '<p class="soft">Mean Q of each episode, as shares of all successes and of all failures. Apart is good.</p>'
    shown = f'<div class="multiples">{"".join(charts[:SHOWN_HISTOGRAMS])}</div>'
    rest = charts[SHOWN_HISTOGRAMS:]
    folded = fold(len(rest), f'<div class="multiples">{"".join(rest)}</div>') if rest else ""
    return intro + key + shown + folded


def draw_training_runs(report: ScoringReport) -> str:
    runs: dict[str, list[tuple[float, float, float, float]]] = {}
    for ranked, candidate in zip(report.ranking.candidates, report.candidates, strict=True):
        if candidate.training_run and candidate.step is not None:
            row = (float(candidate.step), ranked.score, *ranked.score_interval)
            runs.setdefault(candidate.training_run, []).append(row)
    charts = []
    for name, rows in sorted(runs.items()):
        rows.sort()
        if len(rows) < 2 or rows[0][0] == rows[-1][0]:
            continue
        best = max(rows, key=lambda row: row[1])
        label = f"best: step {format_number(best[0])}"
        summary = f"{metric_title(report)} over training of {name}, {label}, {best[1]:.3f}."
        chart = draw_training(rows, y_title=metric_title(report), summary=summary, best_label=label)
        charts.append(f"<figure><h3>{escape(name)}</h3>{chart}</figure>")
    if not charts:
        return ""
    intro = '<p class="soft">Checkpoints of one run, with their intervals: where to stop early.</p>'
    return f'{intro}<div class="multiples wide">{"".join(charts)}</div>'
