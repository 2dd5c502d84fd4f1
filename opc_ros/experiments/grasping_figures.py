"""Plots of the grasping experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opc_ros.experiments.figures import COLOURS, LABELS, draw_line, new_figure, save_figure
from opc_ros.experiments.grasping import WorldResult, training_runs
from opc_ros.experiments.validation_sets import MIXED, SCRIPTED
from opc_ros.ranking import fit_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"train": "train objects", "test": "test objects", "pseudo_real": "pseudo-real world"}
_MARKERS = "os^Dv<>pP*Xhd8"


def draw_grasping(worlds: Sequence[WorldResult], folder: Path) -> list[Path]:
    """All plots, as PNG files."""
    plots = [
        save_figure(_draw_scatter(worlds, MIXED), folder / "grasping_mixed.png"),
        save_figure(_draw_scatter(worlds, SCRIPTED), folder / "grasping_scripted.png"),
        save_figure(_draw_sizes(worlds), folder / "grasping_size.png"),
    ]
    if any(training_runs(world) for world in worlds):
        plots.append(save_figure(_draw_training(worlds), folder / "grasping_training.png"))
    return plots


def _draw_scatter(worlds: Sequence[WorldResult], name: str) -> Figure:
    """True success against our scores on one kind of set, one row per metric and one column per world."""
    metrics = ("opc", "soft_opc", "soft_opc_over_spread")
    figure = new_figure(4.6 * len(worlds), 3.8 * len(metrics))
    grid = figure.subplots(len(metrics), len(worlds), squeeze=False, sharey="col")
    families = sorted({c.manifest.provenance.family or c.name for world in worlds for c in world.candidates})
    for row, metric in zip(grid, metrics, strict=True):
        for axes, world in zip(row, worlds, strict=True):
            _draw_cell(axes, world, name, metric, families)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    labels = [family for family in families if family in handles]
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=2 * len(worlds),
        frameon=False,
        fontsize=8,
    )
    return figure


def _draw_cell(axes: Axes, world: WorldResult, name: str, metric: str, families: Sequence[str]) -> None:
    result = world.find(name)
    scores, figure = result.scores[metric], result.figures[metric]
    for index, family in enumerate(families):
        at = [i for i, c in enumerate(world.candidates) if (c.manifest.provenance.family or c.name) == family]
        if at:
            marker = _MARKERS[index % len(_MARKERS)]
            axes.scatter(scores[at], 100 * world.success[at], marker=marker, s=26, label=family, zorder=3)
    if np.ptp(scores) and np.ptp(world.success):
        draw_line(axes, fit_line(scores, 100 * world.success), scores, COLOURS[metric])
    axes.set_title(f"{TITLES[world.world]}\nR² = {figure.r_squared:.2f}, ξ = {figure.spearman:.2f}", fontsize=10)
    axes.set_xlabel(f"{LABELS[metric]} ({name} set, {result.episodes} episodes)")
    axes.set_ylabel("true success (%)")
    axes.set_ylim(-3, 103)


def _draw_sizes(worlds: Sequence[WorldResult]) -> Figure:
    """Spearman against the number of episodes in the validation set."""
    figure = new_figure(4.6 * len(worlds), 3.8)
    for axes, world in zip(figure.subplots(1, len(worlds), squeeze=False, sharey=True)[0], worlds, strict=True):
        for curve, style in zip(world.size_curves, ("-", "--"), strict=False):
            for metric in ("opc", "soft_opc"):
                label = f"{LABELS[metric]}, {curve.name}"
                axes.plot(curve.sizes, curve.mean[metric], style, color=COLOURS[metric], label=label, marker=".")
                if curve.name == MIXED:
                    axes.fill_between(
                        curve.sizes, curve.low[metric], curve.high[metric], color=COLOURS[metric], alpha=0.15
                    )
        axes.axhline(world.ceiling, color="black", linewidth=0.8, linestyle=":", label="what noise in trials leaves")
        axes.set_xscale("log")
        axes.set_title(TITLES[world.world], fontsize=10)
        axes.set_xlabel("episodes in the validation set")
    figure.axes[0].set_ylabel("Spearman ξ of 100 draws")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2 * len(worlds), frameon=False
    )
    return figure


def _draw_training(worlds: Sequence[WorldResult]) -> Figure:
    """Score and true success over training: one column per run with several checkpoints, one row per world."""
    runs = sorted({run for world in worlds for run in training_runs(world)})
    figure = new_figure(2.7 * len(runs), 2.5 * len(worlds))
    grid = figure.subplots(len(worlds), len(runs), squeeze=False)
    for row, world in zip(grid, worlds, strict=True):
        found = training_runs(world)
        for axes, run in zip(row, runs, strict=True):
            if run not in found:
                axes.set_axis_off()
                continue
            at = found[run]
            steps = [world.candidates[index].manifest.provenance.step or 0 for index in at]
            axes.plot(steps, 100 * world.success[at], color="black", marker="o", markersize=4)
            axes.set_ylim(-3, 103)
            other = axes.twinx()
            scores = world.find(MIXED).scores["soft_opc"]
            other.plot(steps, scores[at], color=COLOURS["soft_opc"], marker="s", markersize=4, linestyle="--")
            other.set_ylim(min(0.0, float(scores.min())) - 0.01, float(scores.max()) + 0.01)
            other.tick_params(axis="y", colors=COLOURS["soft_opc"], labelsize=7)
            axes.tick_params(labelsize=7)
            axes.set_title(f"{run}, {TITLES[world.world]}", fontsize=8)
    figure.supxlabel("training step", fontsize=9)
    figure.supylabel("true success (%), black; SoftOPC, blue", fontsize=9)
    return figure
