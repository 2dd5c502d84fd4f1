"""`opc reproduce`: the paper's experiments, our figures beside the published ones."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli import reproduce_grasping, reproduce_pong
from opc_ros.cli.argument_types import number, whole_number
from opc_ros.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    import numpy as np

    from opc_ros.experiments.tree import TreeResult
    from opc_ros.ranking import Agreement

EXAMPLES = """examples:
  opc reproduce tree
  opc reproduce published --json
  opc reproduce grasping --budget 0.1
  opc reproduce pong --budget 10
  opc reproduce tree --help                 its settings
"""
TREE_EXAMPLES = """examples:
  opc reproduce tree                        all variants, 20 seeds, plots in reproduced/
  opc reproduce tree --seeds 5 --json       figures for machines
  opc reproduce tree --decisions 6          the other reading of the paper's "6 levels"
"""
PUBLISHED_EXAMPLES = """examples:
  opc reproduce published                   agreement over the paper's 15 real-world models
  opc reproduce published --safe-percent 60 --json
"""


def add_parser(verbs: Any) -> None:
    """Add the verb and one parser for each experiment."""
    summary = "Repeat the paper's experiments and print our figures beside the published ones"
    parser = verbs.add_parser(
        "reproduce",
        help=summary,
        description=summary,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    experiments = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", required=True)
    tree = _add_experiment(
        experiments, "tree", "the binary tree: deterministic, stochastic, magnitudes of Q, priors", TREE_EXAMPLES
    )
    tree.add_argument("--seeds", type=whole_number(1), default=20, metavar="N", help="seeds 0 to N-1 (default 20)")
    tree.add_argument("--decisions", type=whole_number(1), default=5, metavar="D", help="from root to leaf (default 5)")
    tree.add_argument(
        "--functions", type=whole_number(1), default=1000, metavar="K", help="random Q functions (default 1000)"
    )
    tree.add_argument(
        "--episodes", type=whole_number(1), default=1000, metavar="E", help="validation episodes (default 1000)"
    )
    tree.set_defaults(run=run_tree)
    published = _add_experiment(
        experiments, "published", "the 15 real-world models of the paper's table", PUBLISHED_EXAMPLES
    )
    published.add_argument(
        "--safe-percent",
        type=number(0, 100),
        default=50.0,
        metavar="P",
        help="success that counts as safe (default 50)",
    )
    published.set_defaults(run=run_published)
    reproduce_grasping.add_parser(experiments)
    reproduce_pong.add_arguments(_add_experiment(experiments, "pong", reproduce_pong.SUMMARY, reproduce_pong.EXAMPLES))


def _add_experiment(experiments: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = experiments.add_parser(
        name, help=summary, description=summary, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reproduced"), metavar="DIR", help="where plots go (default reproduced/)"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser


def run_tree(arguments: argparse.Namespace) -> int:
    """Run every variant, print it beside the paper, draw the plots."""
    from opc_ros.experiments import tree
    from opc_ros.experiments.figures import draw_tree, open_folder

    open_folder(arguments.out)
    base = tree.TreeSettings(decisions=arguments.decisions, functions=arguments.functions, episodes=arguments.episodes)
    with progress_bar("tree", is_shown=not arguments.json) as report:
        results = tree.run_tree(base, range(arguments.seeds), report)
    plots = draw_tree(results, arguments.out)
    if arguments.json:
        content = {"settings": asdict(base), "seeds": arguments.seeds, "variants": list(map(_tree_json, results))}
        print(json.dumps({**content, "plots": list(map(str, plots))}, indent=2))
        return 0
    print(
        f"{base.functions} random Q functions, {base.episodes} episodes, {base.decisions} decisions from root to leaf;"
    )
    print(f"mean ± standard deviation over {arguments.seeds} seeds")
    is_banded = arguments.seeds >= 20 and base == tree.TreeSettings(decisions=base.decisions)
    for result in results:
        print("\n".join(_tree_lines(result, is_banded and not result.variant.changes)))
    print("\n".join(_prior_lines(results)))
    print("\n".join(f"plot: {plot}" for plot in plots))
    return 0


def _tree_lines(result: TreeResult, is_banded: bool) -> Iterator[str]:
    from opc_ros.experiments.figures import LABELS
    from opc_ros.experiments.tree import METRICS, SPEARMAN_BANDS

    yield f"\n{result.variant.label}"
    yield f"  {'':<18} {'R²':>13} {'paper':>6}   {'Spearman':>16} {'paper':>6}{'   expected' * is_banded}"
    for metric in METRICS:
        r_squared, spearman = result.r_squared[metric][:, -1], result.spearman[metric][:, -1]
        published = result.variant.published.get(metric)
        beside = [f"{value:6.2f}" for value in published] if published else [f"{'-':>6}"] * 2
        label = LABELS[metric]
        line = f"  {label:<18} {_spread(r_squared, 2):>13} {beside[0]}   {_spread(spearman, 3):>16} {beside[1]}"
        if is_banded:
            low, high = SPEARMAN_BANDS[metric]
            line += f"   {low:.2f} to {high:.2f}: {'inside' if low <= spearman.mean() <= high else 'OUTSIDE'}"
        yield line


def _prior_lines(results: tuple[TreeResult, ...]) -> Iterator[str]:
    yield "\nSpearman against the prior p(y=1); - where the score is the same for every function"
    for result in results:
        if not result.variant.is_swept:
            continue
        shown = [index for index, prior in enumerate(result.priors) if round(prior * 20) % 5 == 0]
        yield f"  {result.variant.label:<18} " + " ".join(f"{result.priors[index]:>6}" for index in shown)
        for metric, label in (("opc", "OPC"), ("soft_opc", "SoftOPC")):
            means = result.spearman[metric].mean(axis=0)
            cells = (f"{'-':>6}" if math.isnan(means[index]) else f"{means[index]:6.2f}" for index in shown)
            yield f"    {label:<16} " + " ".join(cells)


def _spread(values: np.ndarray, digits: int) -> str:
    if not len(values) or math.isnan(values.mean()):
        return "constant"
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def _tree_json(result: TreeResult) -> dict[str, Any]:
    def summarise(figures: dict[str, np.ndarray]) -> dict[str, Any]:
        return {
            metric: {
                "mean": [None if math.isnan(value) else value for value in values.mean(axis=0).tolist()],
                "sd": [None if math.isnan(value) else value for value in values.std(axis=0).tolist()],
            }
            for metric, values in figures.items()
        }

    return {
        "label": result.variant.label,
        "changes": dict(result.variant.changes),
        "priors": list(result.priors),
        "r_squared": summarise(result.r_squared),
        "spearman": summarise(result.spearman),
        "published": {
            metric: {"r_squared": r_squared, "spearman": spearman}
            for metric, (r_squared, spearman) in result.variant.published.items()
        },
    }


def run_published(arguments: argparse.Namespace) -> int:
    """Measure agreement over the published table, print it beside the paper's figures, draw the plot."""
    from opc_ros.experiments import published
    from opc_ros.experiments.figures import draw_published, open_folder

    open_folder(arguments.out)
    agreement = published.measure_published(arguments.safe_percent)
    plots = draw_published(agreement.line, arguments.out)
    if arguments.json:
        models = [asdict(model) for model in published.MODELS]
        paper = {"r_squared": published.PUBLISHED_R_SQUARED, "spearman": published.PUBLISHED_SPEARMAN}
        content = {"models": models, "agreement": asdict(agreement), "published": paper}
        print(json.dumps({**content, "plots": list(map(str, plots))}, indent=2))
        return 0
    print("\n".join(_published_lines(agreement)))
    print("\n".join(f"plot: {plot}" for plot in plots))
    return 0


def _published_lines(agreement: Agreement) -> Iterator[str]:
    from opc_ros.experiments.published import MODELS, PUBLISHED_R_SQUARED, PUBLISHED_SPEARMAN

    yield f"SoftOPC against real grasp success, {len(MODELS)} models of the paper"
    yield f"  {'':<24} {'ours':>8} {'paper':>7}"
    yield f"  {'R²':<24} {agreement.line.r_squared:8.3f} {PUBLISHED_R_SQUARED:7.2f}"
    yield f"  {'Spearman':<24} {agreement.spearman:8.3f} {PUBLISHED_SPEARMAN:7.2f}   (the table itself gives ours)"
    yield f"  {'Kendall':<24} {agreement.kendall:8.3f} {'-':>7}"
    for k, regret in agreement.regret:
        yield f"  {f'regret@{k} (points)':<24} {regret:8.2f} {'-':>7}"
    yield f"  {'MMRV (points)':<24} {agreement.mmrv:8.2f} {'-':>7}"
    line, safety = agreement.line, agreement.safety
    yield f"  line: success % = {line.intercept:.2f} + {line.slope:.1f} * SoftOPC"
    if safety is not None:
        yield (
            f"  judged safe from {safety.threshold:g} % on: safe but refused (Type I) {_share(safety.safe_refused)}, "
            + (f"unsafe but admitted (Type II) {_share(safety.unsafe_admitted)}")
        )


def _share(value: float | None) -> str:
    return "- (none)" if value is None else f"{100 * value:.0f} %"
