"""What the validation set holds, by robot, behaviour policy, objects and length."""

from __future__ import annotations

import datetime

from opc_ros.reporting.parts import definitions, group_table
from opc_ros.reporting.report import ScoringReport
from opc_ros.reporting.section import Section


def render_validation_set(report: ScoringReport) -> str:
    held = report.validation_set
    ranking = report.ranking
    days = " to ".join(dict.fromkeys(_day(stamp) for stamp in (held.first_ns, held.last_ns)))
    facts = [
        ("Episodes", f"{ranking.episodes:,}, of which {ranking.successes:,} successes"),
        ("Success", f"{ranking.successes / ranking.episodes:.1%}"),
        ("Transitions", f"{held.transitions:,}, {held.transitions / ranking.episodes:.1f} per episode"),
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


def _day(stamp_ns: int) -> str:
    return datetime.datetime.fromtimestamp(stamp_ns / 1e9, tz=datetime.UTC).strftime("%-d %B %Y")


SECTION = Section("validation-set", "The validation set", place=60, render=render_validation_set)
