"""The report as one page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from opc_ros.ranking.ranking import RankedCandidate
from opc_ros.reporting.charts import Axis, draw_interval, pad
from opc_ros.reporting.figures import draw_agreement, draw_histograms, draw_training_runs
from opc_ros.reporting.parts import (
    METRIC_TITLES,
    SHOWN,
    bar,
    count,
    definitions,
    folded_table,
    group_table,
    metric_title,
)
from opc_ros.reporting.report import CandidateReport, ScoringReport

SHOWN_BEATS = 12


def render_page(report: ScoringReport) -> str:
    """The whole HTML document."""
    style = files("opc_ros.reporting").joinpath("report.css").read_text(encoding="utf-8")
    sections = [
        ("leaderboard", "Leaderboard", _leaderboard(report)),
        ("order", "How sure the order is", _beats(report)),
        ("agreement", "Score and true success", draw_agreement(report)),
        ("histograms", "Q on successes and failures", draw_histograms(report)),
        ("training", "Score over training", draw_training_runs(report)),
        ("validation-set", "The validation set", _validation_set(report)),
        ("repeat", "To repeat this", _repeat(report)),
    ]
    shown = [section for section in sections if section[2]]
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


def _leaderboard(report: ScoringReport) -> str:
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
        + "".join(f'<th scope="col" class="number wide-only">{METRIC_TITLES[name]}</th>' for name in others)
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


def _beats(report: ScoringReport) -> str:
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


def _validation_set(report: ScoringReport) -> str:
    held = report.validation_set
    ranking = report.ranking
    days = " to ".join(dict.fromkeys(_day(stamp) for stamp in (held.first_ns, held.last_ns)))
    facts = [
        ("Episodes", f"{ranking.episodes:,}, of which {ranking.successes:,} successes"),
        ("Success", f"{ranking.successes / ranking.episodes:.1%}"),
        ("Transitions", f"{held.transitions:,}, {held.transitions / ranking.episodes:.1f} an episode"),
        ("Recorded", days),
    ]
    tables = [
        group_table(title, groups)
        for title, groups in (
            ("Robot", held.robots),
            ("Behaviour policy", held.behaviour_policies),
            ("Objects", held.object_sets),
            ("Steps", held.steps),
        )
    ]
    return f'{definitions(facts)}<div class="groups">{"".join(tables)}</div>'


def _repeat(report: ScoringReport) -> str:
    ranking = report.ranking
    facts = [
        ("Ranking", f"<code>{ranking.ranking_id}</code>"),
        ("Snapshot", f"<code>{escape(ranking.snapshot_id)}</code>"),
        ("Metric", f"{metric_title(report)}, prior {ranking.prior:g}"),
        ("Bootstrap", f"{ranking.resamples:,} resamples, seed {report.seed}"),
        ("Software", f"opc_ros {escape(report.version)}, scorer {escape(report.scorer_version)}"),
        ("Made", escape(report.made_at)),
    ]
    head = (
        '<tr><th scope="col">Candidate</th><th scope="col">Id</th><th scope="col" class="wide-only">Network</th>'
        '<th scope="col" class="wide-only">Trained on</th><th scope="col" class="wide-only">Code</th></tr>'
    )
    rows = [
        f'<tr><th scope="row">{escape(c.name)}</th><td><code>{c.candidate_id}</code></td>'
        f'<td class="wide-only">{escape(c.architecture or c.format)}</td>'
        f'<td class="wide-only"><code>{escape(c.data_snapshot[:12]) or "&ndash;"}</code></td>'
        f'<td class="wide-only"><code>{escape(c.git_revision[:12]) or "&ndash;"}</code></td></tr>'
        for c in report.candidates
    ]
    return definitions(facts) + folded_table("", head, rows, "hashes")


def _step(candidate: CandidateReport) -> str:
    return "" if candidate.step is None else f"step {candidate.step:,}"


def _day(stamp_ns: int) -> str:
    return datetime.datetime.fromtimestamp(stamp_ns / 1e9, tz=datetime.UTC).strftime("%-d %B %Y")
