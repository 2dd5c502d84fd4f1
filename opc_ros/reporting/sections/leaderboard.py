"""Every candidate with its score, interval and rank, best first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from opc_ros.ranking.ranking import RankedCandidate
from opc_ros.reporting.charts import Axis, draw_interval, pad
from opc_ros.reporting.parts import bar, folded_table, metric_title
from opc_ros.reporting.report import CandidateReport, ScoringReport
from opc_ros.reporting.section import Section
from opc_ros.scoring import find_metric


def render_leaderboard(report: ScoringReport) -> str:
    ranking = report.ranking
    ends = [end for candidate in ranking.candidates for end in candidate.score_interval]
    axis = Axis(*pad(min(ends), max(ends)), 4, 172)
    others = [name for name in report.candidates[0].metrics if name != ranking.metric]
    is_known = any(candidate.known_success for candidate in report.candidates)
    head = (
        '<tr><th scope="col" class="number">#</th><th scope="col">Candidate</th>'
        f'<th scope="col" class="number">{metric_title(report)}</th>'
        f'<th scope="col" class="spread">{ranking.confidence:.0%} interval</th>'
        f'<th scope="col" class="number wide-only">Rank</th>'
        f'<th scope="col" class="wide-only">In top {ranking.top_k}</th>'
        + "".join(f'<th scope="col" class="number wide-only">{find_metric(name).title}</th>' for name in others)
        + ('<th scope="col" class="number">True</th>' if is_known else "")
        + "</tr>"
    )
    rows = [
        _leaderboard_row(ranked, candidate, axis, others, is_known)
        for ranked, candidate in zip(ranking.candidates, report.candidates, strict=True)
    ]
    caption = (
        f"Rank and interval from {ranking.resamples:,} resamples of whole episodes. "
        f"&ldquo;In top {ranking.top_k}&rdquo;: in how many of them the candidate was among the best {ranking.top_k}."
    )
    return folded_table(f'<p class="soft">{caption}</p>', head, rows, "leaderboard")


def _leaderboard_row(
    ranked: RankedCandidate, candidate: CandidateReport, axis: Axis, others: Sequence[str], is_known: bool
) -> str:
    first, last = ranked.rank_interval
    known = candidate.known_success
    note = ", ".join(part for part in (candidate.family, _step(candidate)) if part)
    return (
        f'<tr><td class="number">{ranked.rank}</td>'
        f'<th scope="row">{escape(ranked.name)}{f"<small>{escape(note)}</small>" if note else ""}</th>'
        f'<td class="number">{ranked.score:.3f}</td>'
        f'<td class="spread">{draw_interval(axis, ranked.score, *ranked.score_interval)}</td>'
        f'<td class="number wide-only">{first if first == last else f"{first} to {last}"}</td>'
        f'<td class="wide-only">{bar(ranked.top_k_probability)}</td>'
        + "".join(f'<td class="number wide-only">{candidate.metrics[name]:.3f}</td>' for name in others)
        + (f'<td class="number">{f"{known.share:.0%}" if known else "&ndash;"}</td>' if is_known else "")
        + "</tr>"
    )


def _step(candidate: CandidateReport) -> str:
    return "" if candidate.step is None else f"step {candidate.step:,}"


SECTION = Section("leaderboard", "Leaderboard", place=10, render=render_leaderboard)
