"""How well scores predict true success, with intervals that resample whole training runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.experiments.agreement_intervals import agree
from opc_ros.policies.candidate import Candidate
from opc_ros.ranking import regret_at_k

_RESAMPLES = 1000
_MEMBER = re.compile(r"\(([0-9a-f]{12})\)")  # how an average's notes name its members


@dataclass(frozen=True, slots=True)
class ClusteredFigure:
    """Figures of one score in one world; regrets in points of true success."""

    spearman: float
    spearman_interval: tuple[float, float]
    r_squared: float
    regret_at_1: float
    regret_at_3: float
    spearman_above_half: float | None  # None if fewer than 4 candidates succeed in more than half of their trials
    worse_without_a_run: float  # share of leave-one-run-out cases in which regret@1 is above the base score's


def training_runs_of(candidates: Sequence[Candidate]) -> list[frozenset[str]]:
    """The training run of each candidate; an average belongs to the runs of all its members."""
    runs = {c.id[:12]: c.manifest.provenance.training_run or c.name for c in candidates}
    found = []
    for candidate in candidates:
        members = _MEMBER.findall(candidate.manifest.provenance.notes)
        found.append(frozenset(runs.get(one, one) for one in members) or frozenset((runs[candidate.id[:12]],)))
    return found


def measure(
    scores: np.ndarray,
    base: np.ndarray,
    success: np.ndarray,
    runs: Sequence[frozenset[str]],
    rng: np.random.Generator,
) -> ClusteredFigure:
    """Figures of scores (C,) against true success (C,)."""
    r_squared, correlation = agree(scores, success)
    above = success > 0.5
    return ClusteredFigure(
        spearman=correlation,
        spearman_interval=_interval(scores, success, runs, rng),
        r_squared=r_squared,
        regret_at_1=100 * regret_at_k(scores, success, 1),
        regret_at_3=100 * regret_at_k(scores, success, 3),
        spearman_above_half=agree(scores[above], success[above])[1] if above.sum() >= 4 else None,
        worse_without_a_run=_worse_share(scores, base, success, runs),
    )


def to_markdown(figures: Mapping[str, ClusteredFigure]) -> str:
    """One row for each score."""
    lines = [
        "| score | ξ (95 %, runs resampled) | R² | regret@1 | regret@3 | ξ above 50 % | worse without a run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in figures.items():
        low, high = one.spearman_interval
        above = "-" if one.spearman_above_half is None else f"{one.spearman_above_half:.2f}"
        lines.append(
            f"| {name} | {one.spearman:.2f} ({low:.2f} to {high:.2f}) | {one.r_squared:.2f} | {one.regret_at_1:.1f} | "
            f"{one.regret_at_3:.1f} | {above} | {one.worse_without_a_run:.0%} |"
        )
    return "\n".join(lines)


def _interval(
    scores: np.ndarray, success: np.ndarray, runs: Sequence[frozenset[str]], rng: np.random.Generator
) -> tuple[float, float]:
    """The middle 95 % over resampled runs; an average counts as often as its least drawn run."""
    names = sorted(frozenset().union(*runs))
    belongs = np.array([[name in run for name in names] for run in runs])
    found = []
    for _ in range(_RESAMPLES):
        drawn = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        times = np.where(belongs, drawn, len(names)).min(axis=1)
        at = np.repeat(np.arange(len(runs)), times)
        if at.size > 2 and np.ptp(success[at]) > 0:
            found.append(agree(scores[at], success[at])[1])
    low, high = np.quantile(found, (0.025, 0.975)).tolist()
    return low, high


def _worse_share(scores: np.ndarray, base: np.ndarray, success: np.ndarray, runs: Sequence[frozenset[str]]) -> float:
    cases = []
    for name in sorted(frozenset().union(*runs)):
        kept = np.array([name not in run for run in runs])
        cases.append(regret_at_k(scores[kept], success[kept], 1) > regret_at_k(base[kept], success[kept], 1))
    return float(np.mean(cases))
