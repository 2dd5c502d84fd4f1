"""Episodes in the order they began, a page at a time."""

from __future__ import annotations

from heapq import nlargest, nsmallest

import numpy as np

from opc_ros.store.catalogue import Catalogue
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.records import CommittedEpisode
from opc_ros.store.segment import Segment
from opc_ros.store.selection import Selection

Key = tuple[int, str, int, int]  # beginning, id, index of its segment, row


def may_match(facts: FolderFacts, selection: Selection) -> bool:
    """Whether a folder can contain anything that is selected."""
    return (
        (not selection.robots or facts.robot in selection.robots)
        and (selection.since_ns is None or facts.last_ns >= selection.since_ns)
        and (selection.until_ns is None or facts.first_ns < selection.until_ns)
    )


def read_page(
    catalogue: Catalogue, selection: Selection, *, first: int, count: int, is_newest_first: bool
) -> list[CommittedEpisode]:
    """Read one page; opens only as many folders as can contribute to it."""
    folders = [facts for facts in catalogue.folders() if facts.episodes and may_match(facts, selection)]
    if is_newest_first:
        folders.sort(key=lambda facts: facts.last_ns, reverse=True)
    else:
        folders.sort(key=lambda facts: facts.first_ns)
    wanted = first + count
    segments: list[Segment] = []
    found: list[Key] = []
    for facts in folders:
        if len(found) >= wanted:
            worst = found[-1][0]
            if (is_newest_first and facts.last_ns < worst) or (not is_newest_first and facts.first_ns > worst):
                break
        segment = catalogue.segment(facts)
        segments.append(segment)
        (rows,) = np.nonzero(segment.matching(selection))
        began = segment.rows["began_ns"][rows].tolist()
        keys = [(at, segment.ids[row], len(segments) - 1, row) for at, row in zip(began, rows.tolist(), strict=True)]
        choose = nlargest if is_newest_first else nsmallest
        found = choose(wanted, found + keys)
    return [next(segments[where].episodes([row])) for _, _, where, row in found[first:wanted]]
