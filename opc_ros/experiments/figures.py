"""The paper's plots, drawn from our figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opc_ros.durable import replace_file
from opc_ros.errors import SetupError
from opc_ros.experiments.published import MODELS
from opc_ros.experiments.tree import METRICS, TreeResult
from opc_ros.ranking import FittedLine, fit_line
from opc_ros.scoring import all_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {name: metric.title for name, metric in all_metrics().items()}
# Okabe and Ito's palette, which colour-blind readers can distinguish too.
COLOURS = {
    "td_error": "#999999",
    "sum_of_advantages": "#E69F00",
    "mcc_error": "#56B4E9",
    "opc": "#009E73",
    "soft_opc": "#0072B2",
    "soft_opc_over_spread": "#CC79A7",
}


def open_folder(folder: Path) -> None:
    """Create the folder for plots, before spending time on anything to plot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot make folder {folder}: {error.strerror or error}") from None


def draw_tree(results: Sequence[TreeResult], folder: Path) -> list[Path]:
    """All plots of the tree, as PNG files."""
    swept = [result for result in results if result.variant.is_swept]
    published = [result for result in results if result.variant.published]
    return [
        save_figure(_draw_scatter(results[0]), folder / "tree_scatter.png"),
        save_figure(_draw_priors(swept), folder / "tree_prior.png"),
        save_figure(_draw_against_paper(published), folder / "tree_spearman.png"),
    ]


def draw_published(line: FittedLine, folder: Path) -> list[Path]:
    """SoftOPC against real grasp success of the published models, as a PNG file."""
    figure = new_figure(7.0, 5.0)
    axes = figure.subplots()
    scores = np.array([model.soft_opc for model in MODELS])
    success = np.array([model.success_percent for model in MODELS])
    draw_line(axes, line, scores, COLOURS["soft_opc"])
    families = (("Sim", "o"), ("Randomized", "s"), ("Heavy", "D"), ("RCAN", "^"))
    for (family, marker), label in zip(
        families, ("Sim", "Randomized Sim (+ Real)", "Heavy Randomized Sim", "RCAN (+ Real, variants)"), strict=True
    ):
        chosen = [model.name.startswith(family) for model in MODELS]
        axes.scatter(scores[chosen], success[chosen], marker=marker, s=36, label=label, zorder=3)
    axes.set_xlabel("SoftOPC")
    axes.set_ylabel("real grasp success (%)")
    axes.set_title(f"15 real-world models: R² = {line.r_squared:.3f}, line with 95 % band")
    axes.legend(loc="lower right", frameon=False)
    return [save_figure(figure, folder / "published_scatter.png")]


def _draw_scatter(result: TreeResult) -> Figure:
    """True success against each score, for the functions of the first seed."""
    figure = new_figure(15.0, 3.4)
    success = result.first.success
    for axes, metric in zip(figure.subplots(1, len(METRICS), sharey=True), METRICS, strict=True):
        scores = result.first.scores[metric].reshape(success.size, -1)[:, -1]
        axes.scatter(scores, success, s=6, alpha=0.3, color=COLOURS[metric], linewidths=0)
        line = fit_line(scores, success)
        draw_line(axes, line, scores, "black")
        xi = result.first.spearman[metric][-1]
        axes.set_title(f"{LABELS[metric]}\nR² = {line.r_squared:.2f}, ξ = {xi:.2f}", fontsize=10)
        axes.set_xlabel("score")
    figure.axes[0].set_ylabel("true success")
    return figure


def draw_line(axes: Axes, line: FittedLine, scores: np.ndarray, colour: str) -> None:
    across = np.linspace(scores.min(), scores.max(), 100)
    low, high = line.band(across)
    axes.fill_between(across, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(across, line.predict(across), color=colour, linewidth=1.5)


def _draw_priors(results: Sequence[TreeResult]) -> Figure:
    """Spearman correlation against the prior, mean over seeds plus or minus one standard deviation."""
    figure = new_figure(3.6 * len(results), 3.6)
    for axes, result in zip(figure.subplots(1, len(results), sharey=True), results, strict=True):
        for metric in METRICS:
            values = np.broadcast_to(result.spearman[metric], (len(result.spearman[metric]), len(result.priors)))
            # A prior for which the score is constant in any seed has no correlation to show.
            mean, spread = values.mean(axis=0), values.std(axis=0)
            axes.plot(result.priors, mean, color=COLOURS[metric], label=LABELS[metric], marker=".", markersize=4)
            axes.fill_between(result.priors, mean - spread, mean + spread, color=COLOURS[metric], alpha=0.15)
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set_title(result.variant.label, fontsize=10)
        axes.set_xlabel("prior p(y=1)")
        axes.set_xlim(-0.02, 1.02)
    figure.axes[0].set_ylabel("Spearman ξ with true success")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw_against_paper(results: Sequence[TreeResult]) -> Figure:
    """Spearman correlation of each metric in each variant, ours with its spread over seeds beside the paper's."""
    figure = new_figure(9.0, 4.0)
    axes = figure.subplots()
    width = 0.8 / len(METRICS)
    for index, metric in enumerate(METRICS):
        at = np.arange(len(results)) + (index - (len(METRICS) - 1) / 2) * width
        values = [result.spearman[metric][:, -1] for result in results]
        means, spreads = [value.mean() for value in values], [value.std() for value in values]
        axes.bar(at, means, width * 0.9, yerr=spreads, color=COLOURS[metric], label=LABELS[metric], capsize=2)
        published = [result.variant.published[metric][1] for result in results]
        label = "paper" if index == len(METRICS) - 1 else None
        axes.scatter(at, published, marker="_", s=130, color="black", linewidths=2, zorder=3, label=label)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xticks(range(len(results)), [result.variant.label for result in results])
    axes.set_ylabel("Spearman ξ with true success")
    axes.legend(frameon=False, ncols=3)
    return figure


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def save_figure(figure: Figure, path: Path) -> Path:
    """A PNG with a palette of 64 colours: plots have few, and the file is a quarter of the size."""
    from PIL import Image

    drawn, image = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    drawn.seek(0)
    with Image.open(drawn) as full:
        full.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(image, "PNG", optimize=True)
    try:
        replace_file(path, image.getvalue())
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror or error}") from None
    return path
