"""The report as one page that needs nothing else: no fonts, no network, one script to sort and filter."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from opc_ros.reporting.outlook import CandidateOutlook
from opc_ros.reporting.parts import SHOWN, count, definitions, metric_title
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.sections import all_sections


def render_page(report: ScoringReport) -> str:
    """The whole HTML document."""
    style, script = _read("report.css"), _read("report.js")
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
        f'<meta http-equiv="Content-Security-Policy" content="{page_policy()}">'
        f"<title>{escape(title)}, {escape(report.made_at[:10])}</title><style>{style}</style></head>\n"
        f"<body><header><h1>{escape(title)}</h1>{_verdicts(report)}{_lede(report)}"
        f'<nav aria-label="Sections">{links}</nav></header>'
        f"<main>{_left_out(report)}{body}</main><script>{script}</script></body></html>\n"
    )


def _read(name: str) -> str:
    return files("opc_ros.reporting").joinpath(name).read_text(encoding="utf-8")


def page_policy() -> str:
    """The page may load nothing and run only this one script, so that a report looks the same offline."""
    digest = base64.b64encode(hashlib.sha256(_read("report.js").encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def _verdicts(report: ScoringReport) -> str:
    """The summary: which candidates pass the gate, what to expect of the best, and the champion."""
    outlook = report.outlook
    if outlook is None:
        return ""
    rows = list(zip(report.ranking.candidates, outlook.candidates, strict=True))
    best, look = max(rows, key=lambda row: row[1].expected)
    points = f"{100 * outlook.tolerance:g} points"
    facts = [
        (
            "Most promising",
            f"<strong>{escape(best.name)}</strong>: {_expect(look)}, within {points} of the best with probability "
            f"{look.near:.2f}",
        )
    ]
    if outlook.gate:
        said = {
            word: [each.name for each, look in rows if look.verdict == word] for word in ("pass", "open", "refused")
        }
        passed = ", ".join(f"<strong>{escape(name)}</strong>" for name in said["pass"][:8]) or "no candidate"
        more = f" and {len(said['pass']) - 8} more" if len(said["pass"]) > 8 else ""
        facts.insert(
            0,
            (
                f"Gate ({escape(outlook.gate)})",
                f"{passed}{more} may run; {len(said['open'])} left open, {len(said['refused'])} refused"
                + ("" if said["pass"] else f". {escape(best.name)}: {escape(look.reason)}"),
            ),
        )
    champion = next(((each, look) for each, look in rows if each.candidate_id == outlook.champion_id), None)
    if champion:
        each, look = champion
        facts.append(("Champion", f"<strong>{escape(each.name)}</strong>: {_expect(look)}, place {each.rank} by score"))
    else:
        facts.append(("Champion", "none in this ranking" if outlook.champion_id else "none yet"))
    if outlook.before_id:
        facts.append(("Ranking before", f"<code>{outlook.before_id[:12]}</code>, {escape(outlook.before_made_at)}"))
    return f'<div class="verdicts">{definitions(facts)}</div>'


def _expect(look: CandidateOutlook) -> str:
    words = f"{100 * look.expected:.0f}% expected ({100 * look.low:.0f} to {100 * look.high:.0f})"
    return words + (f", {look.successes} of {look.trials} on robots" if look.trials else ", never run")


def _lede(report: ScoringReport) -> str:
    ranking, best = report.ranking, report.ranking.candidates[0]
    low, high = best.score_interval
    text = (
        f"On {count(ranking.episodes, 'episode')}, {ranking.successes:,} of them successes, "
        f"<strong>{escape(best.name)}</strong> scores best: {metric_title(report)} {best.unbiased:.3f}, "
        f"between {low:.3f} and {high:.3f} with {ranking.confidence:.0%} confidence."
    )
    if len(ranking.candidates) > 1:
        rivals = sum(other.rank_interval[0] == 1 for other in ranking.candidates[1:])
        text += (
            " No other candidate could be first." if not rivals else f" {count(rivals, 'other')} could still be first."
        )
    return f'<p class="lede">{text}</p>'


def _left_out(report: ScoringReport) -> str:
    parts = []
    for failures, kind in ((report.failed_candidates, "candidate"), (report.failed_episodes, "episode")):
        if failures:
            items = "".join(f"<li><code>{escape(f.id[:16])}</code> {escape(f.reason)}</li>" for f in failures[:SHOWN])
            more = f"<li>and {len(failures) - SHOWN:,} more in the JSON report</li>" if len(failures) > SHOWN else ""
            parts.append(f"<p><strong>Left out: {count(len(failures), kind)}</strong></p><ul>{items}{more}</ul>")
    return f'<div class="left-out" role="note">{"".join(parts)}</div>' if parts else ""
