"""Episodes to look at: the failures and the successes that the top candidate rates highest."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from opc_ros.ranking.forecast import is_of_q
from opc_ros.reporting.outlook import Glimpse
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section


def render_glimpses(report: ScoringReport) -> str:
    if not report.glimpses or not is_of_q(report.ranking):
        return ""
    best = escape(report.ranking.candidates[0].name)
    parts = (
        (f"Worst failures: those that {best} rates highest", [each for each in report.glimpses if not each.is_success]),
        (f"Best successes: those that {best} rates highest", [each for each in report.glimpses if each.is_success]),
    )
    intro = '<p class="soft">Last frames, with the mean Q of the episode; each image links to the recording.</p>'
    return intro + "".join(f"<h3>{title}</h3>{_strip(shown)}" for title, shown in parts if shown)


def _strip(glimpses: Sequence[Glimpse]) -> str:
    figures = "".join(f"<figure>{_linked(each)}<figcaption>{_caption(each)}</figcaption></figure>" for each in glimpses)
    return f'<div class="glimpses">{figures}</div>'


def _linked(glimpse: Glimpse) -> str:
    what = f"last frame of episode {escape(glimpse.episode_id, quote=True)}"
    image = f'<img alt="{what}" src="data:image/jpeg;base64,{glimpse.jpeg}">'
    return f'<a class="episode" href="{escape(glimpse.link, quote=True)}">{image}</a>' if glimpse.link else image


def _caption(glimpse: Glimpse) -> str:
    return f"Q {glimpse.mean_q:.2f}, {escape(glimpse.robot)}<br><code>{escape(glimpse.episode_id)}</code>"


SECTION = Section("episodes", "Episodes to look at", place=15, render=render_glimpses)
