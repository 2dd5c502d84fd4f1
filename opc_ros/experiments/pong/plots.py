"""The experiment's plots: scores against points won, and points won over training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opc_ros.experiments.figures import LABELS, draw_line, new_figure, save_figure
from opc_ros.experiments.pong.experiment import PongResult
from opc_ros.experiments.pong.judging import METRICS, JudgedCandidate, LevelResult
from opc_ros.experiments.pong.variants import VARIANTS, Variant
from opc_ros.ranking import fit_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Nine that are easy to distinguish on white; filled markers for DQN, open ones for Double DQN.
_COLOURS = ("#0072B2", "#D55E00", "#CC79A7", "#56B4E9", "#E69F00", "#009E73", "#000000", "#999999", "#8B4513")


def draw_plots(result: PongResult, folder: Path) -> list[Path]:
    """All plots, as PNG files."""
    return [draw_scatter(result, folder), _draw_metrics(result.levels[0], folder), _draw_training(result, folder)]


def draw_scatter(result: PongResult, folder: Path) -> Path:
    """Points won against OPC and SoftOPC at each stickiness, one colour per variant."""
    figure = new_figure(4.2 * len(result.levels), 8.0)
    grid = figure.subplots(2, len(result.levels), sharey=True, squeeze=False)
    for row, metric in zip(grid, ("soft_opc", "opc"), strict=True):
        for axes, level in zip(row, result.levels, strict=True):
            _draw_level(axes, level, metric)
        row[0].set_ylabel("share of points won")
    grid[0, 0].set_ylim(-0.03, _top(result.levels))  # shared by all panels
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return save_figure(figure, folder / "pong_scatter.png")


def _draw_metrics(level: LevelResult, folder: Path) -> Path:
    """Points won against each of the five metrics."""
    figure = new_figure(15.0, 4.2)
    row = figure.subplots(1, len(METRICS), sharey=True)
    for axes, metric in zip(row, METRICS, strict=True):
        _draw_level(axes, level, metric)
    row[0].set_ylabel("share of points won")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=9, frameon=False)
    return save_figure(figure, folder / "pong_metrics.png")


def _draw_training(result: PongResult, folder: Path) -> Path:
    """Points won and both scores along each variant's training."""
    level = result.levels[0]
    figure = new_figure(13.0, 4.4)
    row = figure.subplots(1, 3)
    for colour, variant, chosen in _by_variant(level):
        steps = [one.step for one in chosen]
        style = {"color": colour, "marker": "o", "markersize": 4, "label": variant.name}
        style |= {"markerfacecolor": "none", "linestyle": "--"} if variant.is_double else {}
        row[0].plot(steps, [one.success for one in chosen], **style)
        for axes, metric in zip(row[1:], ("soft_opc", "opc"), strict=True):
            axes.plot(steps, [one.scores[metric] for one in chosen], **style)
    for axes, title in zip(row, ("share of points won", LABELS["soft_opc"], LABELS["opc"]), strict=True):
        axes.set_title(f"{title}, sticky {level.stickiness:.0%}", fontsize=10)
        axes.set_xlabel("decisions")
        axes.locator_params(axis="x", nbins=5)
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return save_figure(figure, folder / "pong_training.png")


def _draw_level(axes: Axes, level: LevelResult, metric: str) -> None:
    for colour, variant, chosen in _by_variant(level):
        axes.scatter(
            [one.scores[metric] for one in chosen],
            [one.success for one in chosen],
            s=26,
            edgecolors=colour,
            facecolors="none" if variant.is_double else colour,
            label=variant.name,
        )
    scores = np.array([one.scores[metric] for one in level.candidates])
    agreement = level.agreement[metric]
    title = f"{LABELS[metric]}, sticky {level.stickiness:.0%}"
    if agreement is not None:
        draw_line(axes, fit_line(scores, [one.success for one in level.candidates]), scores, "black")
        title += f"\nR² = {agreement.r_squared:.2f}, ξ = {agreement.spearman:.2f}"
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(LABELS[metric])
    axes.locator_params(axis="x", nbins=6)
    axes.set_ylim(-0.03, _top([level]))


def _top(levels: Sequence[LevelResult]) -> float:
    """The upper end of an axis of success, so that every candidate is visible."""
    best = max(one.success for level in levels for one in level.candidates)
    return min(1.03, 1.15 * max(0.2, best))


def _by_variant(level: LevelResult) -> Iterator[tuple[str, Variant, list[JudgedCandidate]]]:
    """Each variant's colour and its checkpoints, first to last."""
    for colour, variant in zip(_COLOURS, VARIANTS, strict=True):
        chosen = [one for one in level.candidates if one.variant == variant.name]
        yield colour, variant, sorted(chosen, key=lambda one: one.step)
