"""Every candidate with its predicted success, the gate's verdict and its score; best score first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from opc_ros.ranking.ranking import RankedCandidate
from opc_ros.reporting.charts import Axis, draw_interval, pad
from opc_ros.reporting.outlook import CandidateOutlook, Outlook
from opc_ros.reporting.parts import SHOWN, metric_title
from opc_ros.reporting.report import CandidateReport, ScoringReport
from opc_ros.reporting.section import Section

_RATES = Axis(0.0, 1.0, 4, 172)
MORE = ' class="more"'


@dataclass(frozen=True, slots=True)
class _View:
    """Which columns there are, and the scale for scores."""

    axis: Axis
    is_known: bool  # whether true success is known for any candidate
    outlook: Outlook | None


def render_leaderboard(report: ScoringReport) -> str:
    ranking, outlook = report.ranking, report.outlook
    ends = [end for candidate in ranking.candidates for end in candidate.score_interval]
    view = _View(
        axis=Axis(*pad(min(ends), max(ends)), 4, 172),
        is_known=any(candidate.known_success for candidate in report.candidates),
        outlook=outlook,
    )
    looks: Sequence[CandidateOutlook | None] = outlook.candidates if outlook else [None] * len(report.candidates)
    rows = [
        _row(ranked, candidate, look, view, is_more=number >= SHOWN)
        for number, (ranked, candidate, look) in enumerate(
            zip(ranking.candidates, report.candidates, looks, strict=True)
        )
    ]
    tools = (
        '<p class="tools" hidden><input type="search" aria-label="Filter candidates" '
        'placeholder="Filter: name, family, verdict"> '
        f'<button type="button" class="all"{" hidden" if len(rows) <= SHOWN else ""}>Show all {len(rows)}</button></p>'
    )
    table = (
        '<div class="scroll" tabindex="0"><table class="leaderboard sortable"><thead>'
        f"{_head(report, view)}</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    return f'<p class="soft">{_caption(report)}</p>{tools}{table}'


def _caption(report: ScoringReport) -> str:
    ranking = report.ranking
    text = ""
    if report.outlook:
        points = f"{100 * report.outlook.tolerance:g} points"
        text = (
            "Expected success: the share of episodes a candidate would succeed in, by all scores and all results of "
            f"this lab, with its 95% interval. Near the best: the probability of being within {points} of it. "
        )
    return (
        f"{text}Scores only order candidates: their intervals and places come from {ranking.resamples:,} resamples of "
        "whole episodes, and say nothing about how often a candidate succeeds."
    )


def _head(report: ScoringReport, view: _View) -> str:
    ranking, outlook = report.ranking, report.outlook
    cells = ['<th scope="col" class="number place">#</th><th scope="col" class="name">Candidate</th>']
    if outlook:
        if outlook.gate:
            cells.append('<th scope="col" class="verdict">Gate</th>')
        cells.append('<th scope="col" class="expected">Expected success</th>')
        cells.append('<th scope="col" class="number wide-only">Near the best</th>')
        cells.append('<th scope="col" class="number wide-only">Ran</th>')
    cells.append(f'<th scope="col" class="number score">{metric_title(report)}</th>')
    cells.append(f'<th scope="col" class="spread">{ranking.confidence:.0%} interval of the score</th>')
    cells.append('<th scope="col" class="number wide-only">Place by score</th>')
    if outlook and outlook.before_id:
        cells.append('<th scope="col" class="number wide-only">Before</th>')
    cells.append(f'<th scope="col" class="number wide-only">Chance of a top-{ranking.top_k} score</th>')
    if view.is_known:
        cells.append('<th scope="col" class="number true">Measured success</th>')
    return f"<tr>{''.join(cells)}</tr>"


def _row(
    ranked: RankedCandidate, candidate: CandidateReport, look: CandidateOutlook | None, view: _View, *, is_more: bool
) -> str:
    first, last = ranked.rank_interval
    known = candidate.known_success
    is_champion = view.outlook is not None and ranked.candidate_id == view.outlook.champion_id
    note = ", ".join(part for part in ("champion" if is_champion else "", candidate.family, _step(candidate)) if part)
    cells = [
        f'<td class="number place">{ranked.rank}</td>'
        f'<th scope="row" class="name">{escape(ranked.name)}{f"<small>{escape(note)}</small>" if note else ""}</th>'
    ]
    if look is not None and view.outlook is not None:
        cells += _outlook_cells(look, view.outlook)
    cells.append(
        f'<td class="number score" data-v="{ranked.unbiased:.6g}">{ranked.unbiased:.3f}</td>'
        f'<td class="spread" data-v="{ranked.score_interval[0]:.6g}">'
        f"{draw_interval(view.axis, ranked.unbiased, *ranked.score_interval)}</td>"
        f'<td class="number wide-only" data-v="{ranked.rank}">{first if first == last else f"{first} to {last}"}</td>'
    )
    if look is not None and view.outlook is not None and view.outlook.before_id:
        cells.append(f'<td class="number wide-only" data-v="{look.place_before or 999999}">{_before(look)}</td>')
    cells.append(f'<td class="number wide-only">{ranked.top_k_probability:.2f}</td>')
    if view.is_known:
        cells.append(f'<td class="number true">{f"{known.share:.0%}" if known else "&ndash;"}</td>')
    return f"<tr{MORE if is_more else ''}>{''.join(cells)}</tr>"


def _outlook_cells(look: CandidateOutlook, outlook: Outlook) -> list[str]:
    cells = []
    if outlook.gate:
        title = escape(look.reason, quote=True)
        cells.append(f'<td class="verdict"><span class="{look.verdict}" title="{title}">{look.verdict}</span></td>')
    words = f"{100 * look.expected:.0f}% ({100 * look.low:.0f} to {100 * look.high:.0f})"
    cells.append(
        f'<td class="expected" data-v="{look.expected:.4f}"><span>{words}</span>'
        f"{draw_interval(_RATES, look.expected, look.low, look.high)}</td>"
    )
    cells.append(f'<td class="number wide-only">{look.near:.2f}</td>')
    ran = f"{look.successes} of {look.trials}" if look.trials else "&ndash;"
    cells.append(f'<td class="number wide-only" data-v="{look.trials}">{ran}</td>')
    return cells


def _before(look: CandidateOutlook) -> str:
    return "new" if look.place_before is None else str(look.place_before)


def _step(candidate: CandidateReport) -> str:
    return "" if candidate.step is None else f"step {candidate.step:,}"


SECTION = Section("leaderboard", "Leaderboard", place=10, render=render_leaderboard)
