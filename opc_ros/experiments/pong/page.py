"""Writes the experiment's pages: figures beside the paper's, where the scores are wrong, and what made them."""

from __future__ import annotations

import importlib.metadata
import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from opc_ros.errors import ScoreError
from opc_ros.experiments.figures import LABELS
from opc_ros.experiments.page_section import write_section
from opc_ros.experiments.pong.emulator import HEIGHT, MOST_DECISIONS, WIDTH
from opc_ros.experiments.pong.experiment import PUBLISHED, PongPlan, PongResult
from opc_ros.experiments.pong.judging import BASELINES, SHOWN, JudgedCandidate, LevelResult, find_misranked
from opc_ros.experiments.pong.validation import EPSILON
from opc_ros.experiments.pong.variants import VARIANTS
from opc_ros.ranking import spearman


def table_lines(result: PongResult) -> Iterator[str]:
    """R^2 and Spearman of each metric at each stickiness, with the paper's in brackets."""
    cells = [f"sticky {level.stickiness:.0%}" for level in result.levels]
    yield f"  {'R² / Spearman (paper)':<25}" + "".join(f"{cell:>28}" for cell in cells)
    for metric in SHOWN:
        yield f"  {LABELS[metric]:<25}" + "".join(f"{_cell(level, metric):>28}" for level in result.levels)


def goal_lines(level: LevelResult) -> Iterator[str]:
    """Whether our two scores do as well as the paper's, and better than every baseline, at one stickiness.

    Only the size of a baseline's Spearman counts, even if its sign is wrong: a hard test for our scores.
    """
    found = {metric: agreement for metric, agreement in level.agreement.items() if agreement is not None}
    baselines = {metric: abs(found[metric].spearman) for metric in BASELINES if metric in found}
    best = max(baselines, key=lambda metric: baselines[metric], default=None)
    for metric in ("soft_opc", "opc"):
        published = PUBLISHED.get(level.stickiness, {}).get(metric)
        if metric not in found or published is None or best is None:
            continue
        ours = found[metric].spearman
        yield (
            f"{LABELS[metric]}, sticky {level.stickiness:.0%}: ξ {ours:.2f}, "
            f"{'at or above' if ours >= published[1] else 'below'} the paper's {published[1]:.2f} and "
            f"{'above' if ours > baselines[best] else 'not above'} the best baseline's |ξ| "
            f"({LABELS[best]}, {baselines[best]:.2f})"
        )


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
    policies = plan.behaviour.checkpoints
    yield (
        f"{plan.recorded * policies} validation episodes from {policies} checkpoints of another Double DQN run, "
        f"{EPSILON:.0%} random actions; the paper records 1,140 from 38"
    )
    yield (
        f"runs of {schedule.decisions:,} decisions, {schedule.steps}-step returns, one point per episode, 1 if it is "
        "won and -1 if it is lost; the paper trains on whole games, where the same counts, and does not say how long"
    )
    yield (
        "the k-th of a run's n checkpoints is taken after (k/n)² of it, because policies change most at the beginning; "
        "the paper does not say when it takes them"
    )
    yield (
        f"a candidate is the running mean of about {schedule.lag} updates' weights, which is also the lagging network; "
        "the paper's are the learned weights themselves"
    )
    yield (
        f"images of {WIDTH}x{HEIGHT}: ball and paddles now and one decision ago; a network sees their centres and "
        "has two layers of 64. The paper's networks learn from the screen"
    )
    yield (
        "a point starts shortly after a serve in a random player's game, because after a reset the ball always takes "
        f"the same path; a rally over {MOST_DECISIONS} decisions counts as not won"
    )
    yield "other batch sizes (128, 256; paper 32, 64) and learning rates (1e-3, 4e-4; paper 2.5e-4, 1e-4)"


def write_pages(page: Path, result: PongResult, plots: Sequence[Path], command: str) -> None:
    """Put the headline into the page, and all tables and plots into pong.md beside it."""
    tables = page.with_name("pong.md")
    write_section(page, "pong", to_headline(result, command, tables.name))
    shown = [os.path.relpath(plot, page.parent) for plot in plots]
    write_section(tables, "pong", to_tables(result, shown, command))


def to_headline(result: PongResult, command: str, tables: str) -> str:
    """What a reader wants first; `tables` is the link from this page to the rest."""
    lines = [
        "## Pong",
        "",
        f"Made by `{command}`; [all tables and plots]({tables}).",
        "Score against the share of points truly won: R² of the line of best fit / Spearman ξ (the middle 95 % of ξ",
        "over resampled candidates; the paper's R² / ξ).",
        "",
        "| metric | " + " | ".join(f"sticky {level.stickiness:.0%}" for level in result.levels) + " |",
        "|---" * (1 + len(result.levels)) + "|",
    ]
    lines += [
        f"| {LABELS[metric]} | " + " | ".join(_wide_cell(level, metric) for level in result.levels) + " |"
        for metric in SHOWN
    ]
    ceilings = ", ".join(f"{level.ceiling:.2f} at {level.stickiness:.0%}" for level in result.levels)
    lines += ["", f"Noise in true success alone would leave ξ {ceilings}.", ""]
    lines += [f"- {line}" for level in result.levels for line in goal_lines(level)]
    return "\n".join(lines)


def to_tables(result: PongResult, plots: Sequence[str], command: str) -> str:
    """Everything else; `plots` are linked relative to the page."""
    first = result.levels[0]
    lines = ["## Tables and plots", "", *(f"![{_title(plot)}]({plot})" for plot in plots), ""]
    lines += ["How this run differs from the paper's:", ""]
    lines += [_wrap_item(line) for line in scale_lines(result.plan, len(first.candidates))]
    lines += ["", *_training_lines(first), "", *_misranked_lines(first)]
    return "\n".join([*lines, "", *_origin_lines(result, command)])


def _wrap_item(line: str) -> str:
    return textwrap.fill(f"- {line}", 125, subsequent_indent="  ", break_on_hyphens=False)


def _training_lines(level: LevelResult) -> Iterator[str]:
    success = sorted(one.success for one in level.candidates)
    yield (
        f"Points won, sticky {level.stickiness:.0%}: the worst {success[0]:.0%}, the middle "
        f"{success[len(success) // 2]:.0%}, the best {success[-1]:.0%}. Each variant's checkpoints, first to last, "
        "and ξ among them alone:"
    )
    yield ""
    yield "| variant | share of points won | ξ of OPC | of SoftOPC | mean Q of the last, points won | lost |"
    yield "|---|---|---|---|---|---|"
    for variant in VARIANTS:
        chosen = sorted((one for one in level.candidates if one.variant == variant.name), key=lambda one: one.step)
        if chosen:
            shares = ", ".join(f"{one.success:.2f}" for one in chosen)
            opc, soft_opc = (_spearman_cell(chosen, metric) for metric in ("opc", "soft_opc"))
            last = chosen[-1]
            yield (
                f"| `{variant.name}` | {shares} | {opc} | {soft_opc} | {last.q_of_wins:.2f} | {last.q_of_losses:.2f} |"
            )


def _spearman_cell(chosen: Sequence[JudgedCandidate], metric: str) -> str:
    try:
        return f"{spearman([one.scores[metric] for one in chosen], [one.success for one in chosen]):.2f}"
    except ScoreError:
        return "-"  # too few candidates, or scores all equal


def _misranked_lines(level: LevelResult) -> Iterator[str]:
    yield f"Where the scores are most wrong, sticky {level.stickiness:.0%} (places of {len(level.candidates)}):"
    yield ""
    yield "| score | candidate | place by score | by success | points won | mean Q, points won | lost |"
    yield "|---|---|---|---|---|---|---|"
    for metric in ("soft_opc", "opc"):
        for found in find_misranked(level, metric):
            one = found.candidate
            yield (
                f"| {LABELS[metric]} | {one.name} | {found.by_score} | {found.by_success} | {one.success:.0%} "
                f"| {one.q_of_wins:.2f} | {one.q_of_losses:.2f} |"
            )


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


def _cell(level: LevelResult, metric: str) -> str:
    published = PUBLISHED.get(level.stickiness, {}).get(metric)
    paper = f" ({published[0]:.2f} / {published[1]:.2f})" if published else ""
    ours = level.agreement[metric]
    return ("all alike" if ours is None else f"{ours.r_squared:.2f} / {ours.spearman:.2f}") + paper


def _wide_cell(level: LevelResult, metric: str) -> str:
    published = PUBLISHED.get(level.stickiness, {}).get(metric)
    paper = f"{published[0]:.2f} / {published[1]:.2f}" if published else "no figure"
    ours = level.agreement[metric]
    if ours is None:
        return f"all alike (paper {paper})"
    low, high = ours.spearman_interval
    return f"{ours.r_squared:.2f} / {ours.spearman:.2f} ({low:.2f} to {high:.2f}; paper {paper})"


def _title(plot: str) -> str:
    return plot.rpartition("/")[2].removesuffix(".png").replace("_", " ")
