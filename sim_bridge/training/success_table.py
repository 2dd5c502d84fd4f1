"""The table of candidates and their true success in each world, best first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from opc_ros.policies.candidate import Candidate
from sim_bridge.training.true_success import TrueSuccess

Results = Mapping[tuple[str, str], TrueSuccess]  # by candidate id and world


def to_text(candidates: Sequence[Candidate], worlds: Sequence[str], results: Results) -> str:
    """As text for a terminal."""
    rows = [("candidate", "id", *worlds)]
    for candidate in _best_first(candidates, worlds, results):
        cells = (_cell(results.get((candidate.id, world))) for world in worlds)
        rows.append((candidate.name, candidate.id[:12], *cells))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def to_markdown(candidates: Sequence[Candidate], worlds: Sequence[str], results: Results) -> str:
    """As Markdown for a file: also the family of each candidate and its amount of data."""
    usual = Counter(found.episodes for found in results.values()).most_common(1)
    lines = [
        f"True success in percent with its 95 % Wilson interval, over {usual[0][0] if usual else 0} episodes in each "
        "world unless another n is given; the best on average first.",
        "",
        "| candidate | family | network | episodes (successes) | " + " | ".join(worlds) + " |",
        "|---" * (4 + len(worlds)) + "|",
    ]
    for candidate in _best_first(candidates, worlds, results):
        manifest = candidate.manifest
        found = (results.get((candidate.id, world)) for world in worlds)
        cells = (_short_cell(one, usual[0][0] if usual else 0) for one in found)
        lines.append(
            f"| {candidate.name} | {manifest.provenance.family} | {manifest.architecture or manifest.format} "
            f"| {_data(manifest.provenance.notes)} | {' | '.join(cells)} |"
        )
    return "\n".join([*lines, ""])


def _best_first(candidates: Sequence[Candidate], worlds: Sequence[str], results: Results) -> list[Candidate]:
    """Sorted by mean success over the worlds; candidates without results come last."""

    def mean(candidate: Candidate) -> float:
        shares = [found.share for world in worlds if (found := results.get((candidate.id, world))) is not None]
        return sum(shares) / len(shares) if shares else -1.0

    return sorted(candidates, key=lambda candidate: (-mean(candidate), candidate.name))


def _cell(found: TrueSuccess | None) -> str:
    if found is None:
        return "not measured"
    return f"{found.share:.1%} ({found.low:.1%} to {found.high:.1%}), n={found.episodes}"


def _short_cell(found: TrueSuccess | None, usual_episodes: int) -> str:
    if found is None:
        return "-"
    episodes = f", n={found.episodes}" if found.episodes != usual_episodes else ""
    return f"{100 * found.share:.1f} ({100 * found.low:.0f} to {100 * found.high:.0f}){episodes}"


def _data(notes: str) -> str:
    """A candidate's data, from `1620 episodes, 402 successes; ...` in its notes; an average has its members'."""
    if notes.startswith("average of "):
        return "its members'"
    found = re.match(r"(\d+) episodes, (\d+) successes;", notes)
    return f"{found[1]} ({found[2]})" if found else "?"
