"""The table of candidates and their true success in each world, best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opc_ros.policies.candidate import Candidate
from sim_bridge.training.true_success import TrueSuccess

Results = Mapping[tuple[str, str], TrueSuccess]  # by candidate id and world


def to_text(candidates: Sequence[Candidate], worlds: Sequence[str], results: Results) -> str:
    """For a terminal."""
    rows = [("candidate", "id", *worlds)]
    for candidate in _best_first(candidates, worlds, results):
        cells = (_cell(results.get((candidate.id, world))) for world in worlds)
        rows.append((candidate.name, candidate.id[:12], *cells))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def to_markdown(candidates: Sequence[Candidate], worlds: Sequence[str], results: Results) -> str:
    """For a file: also what each candidate was made of."""
    lines = [
        "| candidate | family | architecture | made of | " + " | ".join(worlds) + " |",
        "|---" * (4 + len(worlds)) + "|",
    ]
    for candidate in _best_first(candidates, worlds, results):
        manifest = candidate.manifest
        cells = (_cell(results.get((candidate.id, world))) for world in worlds)
        made_of = manifest.provenance.notes.replace("|", "/")
        lines.append(
            f"| {candidate.name} | {manifest.provenance.family} | {manifest.architecture or manifest.format} "
            f"| {made_of} | {' | '.join(cells)} |"
        )
    return "\n".join([*lines, ""])


def _best_first(candidates: Sequence[Candidate], worlds: Sequence[str], results: Results) -> list[Candidate]:
    """By mean success over the worlds; candidates without any come last."""

    def mean(candidate: Candidate) -> float:
        shares = [found.share for world in worlds if (found := results.get((candidate.id, world))) is not None]
        return sum(shares) / len(shares) if shares else -1.0

    return sorted(candidates, key=lambda candidate: (-mean(candidate), candidate.name))


def _cell(found: TrueSuccess | None) -> str:
    if found is None:
        return "not measured"
    return f"{found.share:.1%} ({found.low:.1%} to {found.high:.1%}), n={found.episodes}"
