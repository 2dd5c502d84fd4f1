"""Everything needed to repeat the run, down to the ids of candidates."""

from __future__ import annotations

from html import escape

from opc_ros.reporting.parts import definitions, folded_table, metric_title
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section


def render_repeat(report: ScoringReport) -> str:
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
    command = (
        f"opc score --snapshot {ranking.snapshot_id} --metric {ranking.metric} --prior {ranking.prior:g} "
        f"--top-k {ranking.top_k} --confidence {ranking.confidence:g} --resamples {ranking.resamples} "
        f"--seed {ranking.seed}"
    )
    if ranking.scope == "selection":
        command += "".join(f" {each.candidate_id[:12]}" for each in ranking.candidates)
    again = f"<p>The same figures again, from the folder of this store:</p><pre><code>{escape(command)}</code></pre>"
    return again + definitions(facts) + folded_table("", head, rows, "hashes")


SECTION = Section("repeat", "To repeat this", place=70, render=render_repeat)
