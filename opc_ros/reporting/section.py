"""One section of the report: a title, its place on the page, and what draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.reporting.report import ScoringReport


@dataclass(frozen=True, slots=True)
class Section:
    """Shown if its function returns something; to add one, add a module to `sections/` that defines SECTION."""

    key: str  # anchor on the page
    title: str
    place: int  # sections are ordered by it; leave gaps for others
    render: Callable[[ScoringReport], str]  # HTML; empty if there is nothing to show
