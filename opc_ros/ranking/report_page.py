"""The report as one page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from opc_ros.ranking.charts import (
    Axis,
    LabelledPoint,
    draw_histogram,
    draw_interval,
    draw_scatter,
    draw_training,
    format_number,
    pad,
)
from opc_ros.ranking.ranking import RankedCandidate
from opc_ros.ranking.report import CandidateReport, Group, ScoringReport

SHOWN = 25  # rows of the leaderboard before the rest is folded away
SHOWN_HISTOGRAMS = 12
SHOWN_BEATS = 12
SHOWN_WHISKERS = 40
METRIC_TITLES = {
    "soft_opc": "SoftOPC",
    "opc": "OPC",
    "soft_opc_by_transition": "SoftOPC by transition",
    "td_error": "TD error",
    "sum_of_advantages": "Sum of advantages",
    "mcc_error": "MCC error",
}


def render_page(report: ScoringReport) -> str:
    """The whole HTML document."""
    style = files("opc_ros.ranking").joinpath("report.css").read_text(encoding="utf-8")
    sections = [
        ("leaderboard", "Leaderboard", _leaderboard(report)),
        ("order", "How sure the order is", _beats(report)),
        ("agreement", "Score and true success", _agreement(report)),
        ("histograms", "Q on successes and failures", _histograms(report)),
        ("training", "Score over training", _training(report)),
        ("validation-set", "The validation set", _validation_set(report)),
        ("repeat", "To repeat this", _repeat(report)),
    ]
    shown = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in shown)
    body = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{escape(title)}</h2>{content}</section>'
        for key, title, content in shown
    )
    title = f"Scores of {_count(len(report.candidates), 'candidate')}"
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
        f"On {_count(ranking.episodes, 'episode')}, {ranking.successes:,} of them successes, "
        f"<strong>{escape(best.name)}</strong> scores best: {_metric(report)} {best.score:.3f}, "
        f"between {low:.3f} and {high:.3f} with {ranking.confidence:.0%} confidence."
    )
    if len(ranking.candidates) > 1:
        rivals = sum(other.rank_interval[0] == 1 for other in ranking.candidates[1:])
        text += " It leads beyond doubt." if not rivals else f" {_count(rivals, 'other')} could still be first."
    return f'<p class="lede">{text}</p>'


def _left_out(report: ScoringReport) -> str:
    parts = []
    for failures, kind in ((report.failed_candidates, "candidate"), (report.failed_episodes, "episode")):
        if failures:
            items = "".join(f"<li><code>{escape(f.id[:16])}</code> {escape(f.reason)}</li>" for f in failures[:SHOWN])
            more = f"<li>and {len(failures) - SHOWN:,} more in the JSON report</li>" if len(failures) > SHOWN else ""
            parts.append(f"<p><strong>Left out: {_count(len(failures), kind)}</strong></p><ul>{items}{more}</ul>")
    return f'<div class="left-out" role="note">{"".join(parts)}</div>' if parts else ""


def _leaderboard(report: ScoringReport) -> str:
    ranking = report.ranking
    ends = [end for candidate in ranking.candidates for end in candidate.score_interval]
    axis = Axis(*pad(min(ends), max(ends)), 4, 172)
    others = [name for name in report.candidates[0].metrics if name != ranking.metric]
    is_known = any(candidate.known_success for candidate in report.candidates)
    head = (
        '<tr><th scope="col" class="number">#</th><th scope="col">Candidate</th>'
        f'<th scope="col" class="number">{_metric(report)}</th>'
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
    return _folded_table(f'<p class="soft">{caption}</p>', head, rows, "leaderboard")


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
        f'<td class="wide-only">{_bar(ranked.top_k_probability)}</td>'
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
    return (
        f'<p class="soft">Probability that the candidate of a row scores above that of a column, by rank.{note}</p>'
        f'<div class="scroll" tabindex="0"><table class="beats"><thead><tr><td class="self"></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _agreement(report: ScoringReport) -> str:
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
    words = f"True success is known for {_count(len(pairs), 'candidate')}. "
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
        points, line=line, band=band, x_title=_metric(report), y_title="true success", summary=f"Scatter plot. {words}"
    )
    caption = f"The line of least squares with its {report.ranking.confidence:.0%} band"
    caption += "." if is_crowded else "; whiskers are score intervals."
    return f"<p>{words}</p><figure>{chart}<figcaption>{caption}</figcaption></figure>"


def _histograms(report: ScoringReport) -> str:
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
    folded = _fold(len(rest), f'<div class="multiples">{"".join(rest)}</div>') if rest else ""
    return intro + key + shown + folded


def _training(report: ScoringReport) -> str:
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
        summary = f"{_metric(report)} over training of {name}, {label}, {best[1]:.3f}."
        chart = draw_training(rows, y_title=_metric(report), summary=summary, best_label=label)
        charts.append(f"<figure><h3>{escape(name)}</h3>{chart}</figure>")
    if not charts:
        return ""
    intro = '<p class="soft">Checkpoints of one run, with their intervals: where to stop early.</p>'
    return f'{intro}<div class="multiples wide">{"".join(charts)}</div>'


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
        _group_table(title, groups)
        for title, groups in (
            ("Robot", held.robots),
            ("Behaviour policy", held.behaviour_policies),
            ("Objects", held.object_sets),
            ("Steps", held.steps),
        )
    ]
    return f'{_definitions(facts)}<div class="groups">{"".join(tables)}</div>'


def _repeat(report: ScoringReport) -> str:
    ranking = report.ranking
    facts = [
        ("Ranking", f"<code>{ranking.ranking_id}</code>"),
        ("Snapshot", f"<code>{escape(ranking.snapshot_id)}</code>"),
        ("Metric", f"{_metric(report)}, prior {ranking.prior:g}"),
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
    return _definitions(facts) + _folded_table("", head, rows, "hashes")


def _folded_table(intro: str, head: str, rows: Sequence[str], css: str) -> str:
    def table(part: Iterable[str]) -> str:
        body = "".join(part)
        return f'<div class="scroll"><table class="{css}"><thead>{head}</thead><tbody>{body}</tbody></table></div>'

    rest = rows[SHOWN:]
    folded = _fold(len(rest), table(rest)) if rest else ""
    return intro + table(rows[:SHOWN]) + folded


def _fold(count: int, content: str) -> str:
    return f"<details><summary>Show the other {count:,}</summary>{content}</details>"


def _group_table(title: str, groups: Sequence[Group]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(group.name) or "not given"}</th><td class="number">{group.episodes:,}</td>'
        f"<td>{_bar(group.successes / group.episodes)}</td></tr>"
        for group in groups[:SHOWN]
    )
    return (
        f'<table><thead><tr><th scope="col">{title}</th><th scope="col" class="number">Episodes</th>'
        f'<th scope="col">Success</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _definitions(facts: Sequence[tuple[str, Any]]) -> str:
    return "<dl>" + "".join(f"<dt>{term}</dt><dd>{value}</dd>" for term, value in facts) + "</dl>"


def _bar(share: float) -> str:
    return f'<div class="share"><div class="bar"><i style="width:{share:.1%}"></i></div><span>{share:.0%}</span></div>'


def _metric(report: ScoringReport) -> str:
    return METRIC_TITLES[report.ranking.metric]


def _step(candidate: CandidateReport) -> str:
    return "" if candidate.step is None else f"step {candidate.step:,}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _day(stamp_ns: int) -> str:
    return datetime.datetime.fromtimestamp(stamp_ns / 1e9, tz=datetime.UTC).strftime("%-d %B %Y")
