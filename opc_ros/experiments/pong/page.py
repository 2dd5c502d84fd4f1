"""The experiment's page: figures beside the paper's, plots, and what made them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opc_ros.experiments.figures import LABELS, draw_line, new_figure, save_figure
from opc_ros.experiments.pong.emulator import HEIGHT, MOST_DECISIONS, WIDTH
from opc_ros.experiments.pong.experiment import METRICS, PUBLISHED, LevelResult, PongPlan, PongResult
from opc_ros.experiments.pong.validation import EPSILON
from opc_ros.experiments.pong.variants import VARIANTS
from opc_ros.ranking import fit_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Nine that are told apart on white; filled marks for DQN, open ones for Double DQN.
_COLOURS = ("#0072B2", "#D55E00", "#CC79A7", "#56B4E9", "#E69F00", "#009E73", "#000000", "#999999", "#8B4513")


def table_lines(result: PongResult) -> Iterator[str]:
    """R^2 and Spearman of each metric at each stickiness, the paper's behind ours in brackets."""
    cells = [f"sticky {level.stickiness:.0%}" for level in result.levels]
    yield f"  {'R² / Spearman (paper)':<22}" + "".join(f"{cell:>28}" for cell in cells)
    for metric in METRICS:
        yield f"  {LABELS[metric]:<22}" + "".join(f"{_cell(level, metric):>28}" for level in result.levels)


def scale_lines(plan: PongPlan, candidates: int) -> Iterator[str]:
    """How this run differs from the paper's."""
    schedule = plan.schedule
    yield (
        f"{candidates} candidates, {len(VARIANTS)} variants with {schedule.checkpoints} checkpoints each; "
        "the paper has 175"
    )
    yield (
        f"{plan.points} points decide a candidate's true success without stickiness, half as many with it; "
        "the paper plays 3,000"
    )
    yield (
        f"{plan.recorded} validation episodes from {plan.behaviour.checkpoints} checkpoints of another Double DQN run, "
        f"{EPSILON:.0%} random actions; the paper records 1,140 from 38"
    )
    yield (
        f"runs of {schedule.decisions:,} decisions, {schedule.steps}-step returns, one point an episode, reward 1 if "
        "it is won and else 0; the paper trains on whole games and does not say how long"
    )
    yield (
        f"pictures of {WIDTH}x{HEIGHT}: ball and paddles now and one decision ago; a network sees their centres and has "
        "two layers of 64. The paper's networks learn from the screen"
    )
    yield (
        "a point starts shortly after a serve in a random player's game, because after a reset the ball always takes "
        f"the same way; a rally over {MOST_DECISIONS} decisions counts as not won"
    )
    yield "other batch sizes (128, 256; paper 32, 64) and learning rates (1e-3, 4e-4; paper 2.5e-4, 1e-4)"


def draw_scatter(result: PongResult, folder: Path) -> Path:
    """True success against OPC and SoftOPC at each stickiness, one colour for each variant."""
    figure = new_figure(4.2 * len(result.levels), 8.0)
    grid = figure.subplots(2, len(result.levels), sharey=True, squeeze=False)
    for row, metric in zip(grid, ("soft_opc", "opc"), strict=True):
        for axes, level in zip(row, result.levels, strict=True):
            _draw_level(axes, level, metric)
        row[0].set_ylabel("points won")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return save_figure(figure, folder / "pong_scatter.png")


def _draw_level(axes: Axes, level: LevelResult, metric: str) -> None:
    for colour, variant in zip(_COLOURS, VARIANTS, strict=True):
        chosen = [one for one in level.candidates if one.variant == variant.name]
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
        title += f"\nR² = {agreement[0]:.2f}, ξ = {agreement[1]:.2f}"
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(LABELS[metric])
    axes.set_ylim(-0.03, 1.03)


def _cell(level: LevelResult, metric: str) -> str:
    published = PUBLISHED.get(level.stickiness, {}).get(metric)
    paper = f" ({published[0]:.2f} / {published[1]:.2f})" if published else ""
    ours = level.agreement[metric]
    return ("all alike" if ours is None else f"{ours[0]:.2f} / {ours[1]:.2f}") + paper


def to_markdown(result: PongResult, plot: str, command: str) -> str:
    """The page's section; `plot` is where the page finds it."""
    first = result.levels[0]
    lines = [
        "## Pong",
        "",
        "Score against the share of points truly won: R² of the line of best fit / Spearman ξ, the paper's behind.",
        "",
        "| metric | " + " | ".join(f"sticky {level.stickiness:.0%}" for level in result.levels) + " |",
        "|---" * (1 + len(result.levels)) + "|",
    ]
    lines += [
        f"| {LABELS[metric]} | " + " | ".join(_cell(level, metric) for level in result.levels) + " |"
        for metric in METRICS
    ]
    lines += ["", f"![Score against points won, one colour for each variant]({plot})", "", "How it differs:", ""]
    lines += [f"- {line}" for line in scale_lines(result.plan, len(first.candidates))]
    lines += ["", f"Points won by the checkpoints of each variant, first to last, sticky {first.stickiness:.0%}:", ""]
    for variant in VARIANTS:
        chosen = sorted((one for one in first.candidates if one.variant == variant.name), key=lambda one: one.step)
        lines.append(f"- `{variant.name}`: " + ", ".join(f"{one.success:.2f}" for one in chosen))
    return "\n".join([*lines, "", *_origin_lines(result, command)])


def _origin_lines(result: PongResult, command: str) -> Iterator[str]:
    yield f"Made by `{command}` with:"
    yield ""
    yield "- " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("ale-py", "torch", "numpy"))
    yield f"- {len(result.levels[0].candidates)} candidates, sha256 over their ids {result.candidates_digest}"
    for level in result.levels:
        yield (
            f"- sticky {level.stickiness:.0%}: {level.episodes} episodes, {level.successes} won, "
            f"{level.transitions:,} transitions; snapshot {level.snapshot_id}, ranking {level.ranking_id}"
        )
