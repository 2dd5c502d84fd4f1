"""The report as one page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from opc_ros.reporting.parts import SHOWN, count, metric_title
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.sections import all_sections


def render_page(report: ScoringReport) -> str:
    """The whole HTML document."""
    style = files("opc_ros.reporting").joinpath("report.css").read_text(encoding="utf-8")
    drawn = [(section.key, section.title, section.render(report)) for section in all_sections()]
    shown = [section for section in drawn if section[2]]
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in shown)
    body = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{escape(title)}</h2>{content}</section>'
        for key, title, content in shown
    )
    title = f"Scores of {count(len(report.candidates), 'candidate')}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Nothing on the page may load anything: a report opens the same on a plane.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}, {escape(report.made_at[:10])}</title><style>{style}</style></head>\n"
        f'<body><header><h1>{escape(title)}</h1>{_lede(report)}<nav aria-label="Sections">{links}</nav></header>'
        f"<main>{_left_out(report)}{body}</main></body></html>\n"
    )


def _lede(report: ScoringReport) -> str:
    ranking, best = report.ranking, report.ranking.candidates[0]
    low, high = best.score_interval
    text = (
        f"On {count(ranking.episodes, 'episode')}, {ranking.successes:,} of them successes, "
        f"<strong>{escape(best.name)}</strong> scores best: {metric_title(report)} {best.score:.3f}, "
        f"between {low:.3f} and {high:.3f} with {ranking.confidence:.0%} confidence."
    )
    if len(ranking.candidates) > 1:
        rivals = sum(other.rank_interval[0] == 1 for other in ranking.candidates[1:])
        text += " It leads beyond doubt." if not rivals else f" {count(rivals, 'other')} could still be first."
    return f'<p class="lede">{text}</p>'


def _left_out(report: ScoringReport) -> str:
    parts = []
    for failures, kind in ((report.failed_candidates, "candidate"), (report.failed_episodes, "episode")):
        if failures:
            items = "".join(f"<li><code>{escape(f.id[:16])}</code> {escape(f.reason)}</li>" for f in failures[:SHOWN])
            more = f"<li>and {len(failures) - SHOWN:,} more in the JSON report</li>" if len(failures) > SHOWN else ""
            parts.append(f"<p><strong>Left out: {count(len(failures), kind)}</strong></p><ul>{items}{more}</ul>")
    return f'<div class="left-out" role="note">{"".join(parts)}</div>' if parts else ""
