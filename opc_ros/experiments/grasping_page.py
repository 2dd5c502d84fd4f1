"""Writes the grasping experiment's results as sections of two Markdown pages: the headline, and all tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.experiments.agreement_intervals import METRICS, Figure
from opc_ros.experiments.figures import LABELS
from opc_ros.experiments.grasping import PUBLISHED, WorldResult, find_misranked, training_runs
from opc_ros.experiments.grasping_figures import TITLES
from opc_ros.experiments.page_section import write_section
from opc_ros.experiments.validation_sets import MIXED, SCRIPTED

_SHOWN = ("soft_opc_over_spread", "opc", "soft_opc")


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal for SoftOPC on the mixed set, and over how many candidates."""

    spearman: float
    candidates: int
    r_squared: float = 0.0


GOALS = {"train": Goal(0.86, 40), "test": Goal(0.77, 40), "pseudo_real": Goal(0.94, 15, 0.91)}


def write_pages(page: Path, worlds: Sequence[WorldResult], plots: Sequence[Path], *, command: str) -> None:
    """Put the headline into the page, and all tables and plots into grasping.md beside it."""
    tables = page.with_name("grasping.md")
    write_section(page, "grasping", to_headline(worlds, command=command, tables=tables.name))
    write_section(tables, "grasping", to_tables(worlds, plots, command=command, page=tables))


def to_headline(worlds: Sequence[WorldResult], *, command: str, tables: str) -> str:
    """What a reader wants first; `tables` is the link from this page to the rest."""
    lines = [
        "## Grasping: does the score predict success?",
        "",
        f"Made by `{command}`; [all tables and plots]({tables}).",
        "R² / ξ on the mixed set; in brackets the middle 95 % of ξ over resampled candidates.",
        "",
        *_headline(worlds),
        "",
        *_goals(worlds),
    ]
    return "\n".join(lines)


def to_tables(worlds: Sequence[WorldResult], plots: Sequence[Path], *, command: str, page: Path) -> str:
    """Everything else; `plots` are linked relative to the page."""
    lines = [
        "## Tables and plots",
        "",
        f"Made by `{command}`; every figure below is from that run.",
        "",
        *_describe_worlds(worlds),
        "",
        *_describe_players(worlds),
        "",
        *_main_tables(worlds, MIXED),
        *_main_tables(worlds, SCRIPTED),
        *_all_sets(worlds),
        *_sizes(worlds),
        *_training(worlds),
        *_misranked(worlds),
        "### Plots",
        "",
    ]
    for plot in plots:
        lines += [f"![{plot.stem.replace('_', ' ')}]({os.path.relpath(plot, page.parent)})", ""]
    return "\n".join(lines)


def _headline(worlds: Sequence[WorldResult]) -> Iterator[str]:
    titles = (LABELS[metric] for metric in _SHOWN)
    yield "| world | candidates | episodes | " + " | ".join(titles) + " | paper's SoftOPC |"
    yield "|---" * (4 + len(_SHOWN)) + "|"
    for world in worlds:
        mixed = world.find(MIXED)
        cells = [
            f"{figure.r_squared:.2f} / {figure.spearman:.2f} ({_span(figure.spearman_over_candidates)})"
            for figure in (mixed.figures[metric] for metric in _SHOWN)
        ]
        cells.append("{:.2f} / {:.2f}".format(*PUBLISHED[world.world]["soft_opc"]))
        yield f"| {TITLES[world.world]} | {len(world.candidates)} | {mixed.episodes} | " + " | ".join(cells) + " |"


def _describe_players(worlds: Sequence[WorldResult]) -> Iterator[str]:
    yield "| world | who played the mixed set | episodes | succeeded |"
    yield "|---|---|---|---|"
    for world in worlds:
        for part in world.parts:
            if not part.is_learned:
                share = f"{part.successes / part.episodes:.0%}"
                yield f"| {TITLES[world.world]} | {part.label}, scripted | {part.episodes} | {share} |"
        learned = [part for part in world.parts if part.is_learned]
        if learned:
            episodes, successes = sum(part.episodes for part in learned), sum(part.successes for part in learned)
            shares = [part.successes / part.episodes for part in learned]
            yield (
                f"| {TITLES[world.world]} | {len(learned)} earlier learned policies | {episodes} "
                f"| {successes / episodes:.0%} ({min(shares):.0%} to {max(shares):.0%} each) |"
            )


def _describe_worlds(worlds: Sequence[WorldResult]) -> Iterator[str]:
    yield "| world | candidates | trials each | true success | highest ξ that noise in trials allows | left out |"
    yield "|---|---|---|---|---|---|"
    for world in worlds:
        low, high = (100 * world.success.min(), 100 * world.success.max())
        fewest, most = world.trials
        trials = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        yield (
            f"| {TITLES[world.world]} | {len(world.candidates)} | {trials} | {low:.0f} to {high:.0f} % "
            f"| {world.ceiling:.2f} | {len(world.left_out)} |"
        )
    if any(world.left_out for world in worlds):
        yield ""
        yield "Candidates without enough trials are left out; figures for part of the zoo say less than for all."


def _goals(worlds: Sequence[WorldResult]) -> Iterator[str]:
    yield "| SoftOPC, mixed set | candidates | ξ | R² | goal | |"
    yield "|---|---|---|---|---|---|"
    for world in worlds:
        figure, goal = world.find(MIXED).figures["soft_opc"], GOALS[world.world]
        wanted = f"ξ {goal.spearman:.2f}" + (f", R² {goal.r_squared:.2f}" if goal.r_squared else "")
        yield (
            f"| {TITLES[world.world]} | {len(world.candidates)} | {figure.spearman:.2f} | {figure.r_squared:.2f} "
            f"| {wanted}, {goal.candidates} candidates | {_judge(world, goal)} |"
        )


def _judge(world: WorldResult, goal: Goal) -> str:
    """Figures over fewer candidates than the goal requires meet no goal, however good they are."""
    figure = world.find(MIXED).figures["soft_opc"]
    is_reached = figure.spearman >= goal.spearman and figure.r_squared >= goal.r_squared
    if len(world.candidates) < goal.candidates:
        return "open: too few candidates" + ("" if is_reached else ", and below it so far")
    return "met" if is_reached else "missed"


def _main_tables(worlds: Sequence[WorldResult], name: str) -> Iterator[str]:
    yield f"### All metrics, {name} set"
    yield ""
    yield "R² / ξ; in brackets the middle 95 % over resampled candidates, then over resampled validation episodes."
    yield ""
    yield "| metric | " + " | ".join(f"{TITLES[world.world]} | paper" for world in worlds) + " |"
    yield "|---" * (1 + 2 * len(worlds)) + "|"
    for metric in (*METRICS, "soft_opc_over_spread"):
        cells = []
        for world in worlds:
            figures, published = world.find(name).figures, PUBLISHED[world.world]
            cells.append(_cell(figures[metric]) if metric in figures else "-")
            cells.append("{:.2f} / {:.2f}".format(*published[metric]) if metric in published else "-")
        yield f"| {LABELS[metric]} | " + " | ".join(cells) + " |"
    yield ""
    counts = [f"{TITLES[world.world]} {world.find(name).episodes_with_greedy}" for world in worlds]
    yield f"The three baselines search greedy actions, so they rest on fewer episodes: {', '.join(counts)}."
    yield ""


def _cell(figure: Figure) -> str:
    return (
        f"{figure.r_squared:.2f} / {figure.spearman:.2f} "
        f"(R² {_span(figure.r_squared_over_candidates)}, {_span(figure.r_squared_over_episodes)}; "
        f"ξ {_span(figure.spearman_over_candidates)}, {_span(figure.spearman_over_episodes)})"
    )


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def _all_sets(worlds: Sequence[WorldResult]) -> Iterator[str]:
    yield "### Every validation set"
    yield ""
    yield "R² / ξ. Two variants of SoftOPC: every transition counts once instead of every episode, and the score is"
    yield "divided by the standard deviation of the candidate's Q values, so that their scale no longer matters."
    yield ""
    yield "| world | set | episodes | successes | steps | OPC | SoftOPC | by transition | over spread of Q |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for world in worlds:
        for found in world.sets:
            cells = [
                f"{found.figures[m].r_squared:.2f} / {found.figures[m].spearman:.2f}"
                for m in ("opc", "soft_opc", "soft_opc_by_transition", "soft_opc_over_spread")
            ]
            yield (
                f"| {TITLES[world.world]} | {found.name} | {found.episodes} "
                f"| {found.successes} ({found.successes / found.episodes:.0%}) | {found.transitions} | "
                + " | ".join(cells)
                + " |"
            )
    yield ""


def _sizes(worlds: Sequence[WorldResult]) -> Iterator[str]:
    yield "### How many episodes does a lab need?"
    yield ""
    yield "Spearman of SoftOPC on parts of the mixed set, drawn at random 100 times: mean, and the middle 90 %."
    yield ""
    curves = [next(curve for curve in world.size_curves if curve.name == MIXED) for world in worlds]
    sizes = sorted({size for curve in curves for size in curve.sizes})
    yield "| episodes | " + " | ".join(TITLES[world.world] for world in worlds) + " |"
    yield "|---" * (1 + len(worlds)) + "|"
    for size in sizes:
        cells = []
        for curve in curves:
            if size not in curve.sizes:
                cells.append("")
                continue
            at = curve.sizes.index(size)
            spread = f" ({curve.low['soft_opc'][at]:.2f} to {curve.high['soft_opc'][at]:.2f})"
            cells.append(f"{curve.mean['soft_opc'][at]:.2f}" + spread * (at < len(curve.sizes) - 1))
        yield f"| {size} | " + " | ".join(cells) + " |"
    yield ""


def _training(worlds: Sequence[WorldResult]) -> Iterator[str]:
    if not any(training_runs(world) for world in worlds):
        return
    yield "### Over training: which checkpoint would the score have kept?"
    yield ""
    yield "Success of the checkpoint with the highest SoftOPC (mixed set), of the last and of the best one."
    yield ""
    yield "| world | run | checkpoints | by SoftOPC | last | best |"
    yield "|---|---|---|---|---|---|"
    for world in worlds:
        scores = world.find(MIXED).scores["soft_opc"]
        for run, at in training_runs(world).items():
            kept = world.success[at[np.argmax(scores[at])]]
            yield (
                f"| {TITLES[world.world]} | {run} | {at.size} | {kept:.0%} | {world.success[at[-1]]:.0%} "
                f"| {world.success[at].max():.0%} |"
            )
    yield ""


def _misranked(worlds: Sequence[WorldResult]) -> Iterator[str]:
    yield "### Where SoftOPC is most wrong (mixed set)"
    yield ""
    yield "| world | candidate | place by score | by success | true success | SoftOPC | mean Q, successes | failures |"
    yield "|---|---|---|---|---|---|---|---|"
    for world in worlds:
        for found in find_misranked(world, MIXED):
            yield (
                f"| {TITLES[world.world]} | {found.name} | {found.by_score} | {found.by_success} | {found.success:.0%} "
                f"| {found.score:.3f} | {found.q_of_successes:.2f} | {found.q_of_failures:.2f} |"
            )
    yield ""
