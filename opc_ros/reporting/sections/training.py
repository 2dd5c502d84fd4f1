"""Scores of the checkpoints of one training run: where to stop early."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.charts import draw_training, format_number
from opc_ros.reporting.parts import metric_title
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section


def render_training(report: ScoringReport) -> str:
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


SECTION = Section("training", "Score over training", place=50, render=render_training)
