"""How many episodes a score needs, on parts of one validation set: `python -m opc_ros.experiments.set_size --help`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.agreement_intervals import agree
from opc_ros.experiments.greedy_choices import GreedyChoices, RecordedStates, find_greedy, gather_states, spread_evenly
from opc_ros.experiments.score_choice import load_zoo, score_known
from opc_ros.experiments.score_variants import BASE, BY_Q, ActedOn, combine, score_actions
from opc_ros.experiments.validation_sets import store_folder
from opc_ros.ranking import regret_at_k
from opc_ros.scoring import compute_metric
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import open_store

SIZES = (25, 50, 100, 200, 300, 400, 600)
_OVER_SPREAD_AND = "over spread and "
ScorePart = Callable[[np.ndarray], np.ndarray]  # indices of episodes (n,) -> scores (C,)


@dataclass(frozen=True, slots=True)
class SizePoint:
    """Results on parts of one size: means over draws, and the middle 90 % of Spearman; regrets in points."""

    episodes: int
    spearman: float
    low: float
    high: float
    regret_at_1: float
    regret_at_3: float


def measure_sizes(
    score: ScorePart,
    success: np.ndarray,
    true_success: np.ndarray,
    *,
    draws: int,
    rng: np.random.Generator,
    sizes: Sequence[int] = SIZES,
) -> list[SizePoint]:
    """Draw parts without replacement, each with at least 2 successes and 2 failures; the whole set comes last."""
    points = []
    for size in (*(size for size in sizes if size < success.size), success.size):
        found = []
        for _ in range(draws if size < success.size else 1):
            scores = score(_draw(success, size, rng))
            regrets = [100 * regret_at_k(scores, true_success, k) for k in (1, 3)]
            found.append((agree(scores, true_success)[1], *regrets))
        correlations, first, third = np.array(found).T
        low, high = np.quantile(correlations, (0.05, 0.95)).tolist()
        points.append(SizePoint(size, float(correlations.mean()), low, high, float(first.mean()), float(third.mean())))
    return points


def _draw(success: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    while True:
        part = np.sort(rng.choice(success.size, size, replace=False))
        if 2 <= success[part].sum() <= size - 2:
            return part


def by_q(metric: str, q: np.ndarray, lengths: np.ndarray, success: np.ndarray) -> ScorePart:
    """A score that needs only Q (C, N)."""

    def score(part: np.ndarray) -> np.ndarray:
        rows = np.repeat(np.isin(np.arange(lengths.size), part), lengths)
        return np.array([compute_metric(metric, row[rows], lengths[part], success[part]) for row in q])

    return score


def with_greedy(
    name: str, scored: ScoredSet, at: np.ndarray, states: RecordedStates, greedy: GreedyChoices
) -> ScorePart:
    """SoftOPC over spread plus a property of the greedy actions in those asked successes that the part contains."""
    base = by_q(BASE, np.asarray(scored.q), scored.lengths, scored.success)
    q = scored.q[:, np.repeat(np.isin(np.arange(scored.lengths.size), at), scored.lengths)]

    def score(part: np.ndarray) -> np.ndarray:
        held = np.isin(at, part)
        if held.sum() < 2:
            return base(part)  # no greedy actions to compare, so the default score is all there is
        rows = np.repeat(held, states.lengths)
        acted = ActedOn(
            states.actions[rows], states.lengths[held], greedy.actions[:, rows], greedy.q[:, rows], q[:, rows]
        )
        return combine(base(part), score_actions(acted)[name])

    return score


def to_markdown(curves: dict[str, list[SizePoint]]) -> str:
    """One row per size, one column per score: Spearman with the middle 90 %, regret@1 and regret@3."""
    lines = ["| episodes | " + " | ".join(curves) + " |", "|---|" + "---|" * len(curves)]
    for row in zip(*curves.values(), strict=True):
        cells = [
            f"{one.spearman:.2f} ({one.low:.2f} to {one.high:.2f}), {one.regret_at_1:.1f}, {one.regret_at_3:.1f}"
            for one in row
        ]
        lines.append(f"| {row[0].episodes} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table: Spearman (the middle 90 %), regret@1, regret@3."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", required=True, help="whose store in DATA is taken in parts")
    parser.add_argument("--data", type=Path, default=Path("reproduced/grasping"), help="stores, Q values")
    parser.add_argument("--candidates", type=Path, nargs="+", default=[Path("sim_bridge/zoo/candidates")])
    parser.add_argument("--outcomes", type=Path, default=Path("sim_bridge/zoo/outcomes.parquet"))
    parser.add_argument("--score", action="append", help=f"beside {BASE}, as score_choice names it; may be repeated")
    parser.add_argument("--successes", type=int, default=40, help="successes in which greedy actions are searched")
    parser.add_argument("--draws", type=int, default=40, help="parts of each size")
    arguments = parser.parse_args(argv)
    with (
        open_store(store_folder(arguments.data, arguments.world)) as store,
        QCache(arguments.data / "q.sqlite") as q_cache,
    ):
        snapshot = store.take_snapshot()
        source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
        candidates = load_zoo(arguments.candidates)
        scored, true_success = score_known(arguments.world, source, candidates, arguments.outcomes, q_cache)
        parts = {BASE: by_q(BASE, np.asarray(scored.q), scored.lengths, scored.success)}
        at = spread_evenly(np.flatnonzero(scored.success), arguments.successes)
        for name in arguments.score or ():
            second = name.removeprefix(_OVER_SPREAD_AND)
            if name in BY_Q:
                parts[name] = by_q(name, np.asarray(scored.q), scored.lengths, scored.success)
            elif second != name and second in ("greedy_distance", "peer_distance", "greedy_gap"):
                episodes = [source.read(scored.refs[index]) for index in at]
                states = gather_states(episodes, scored.candidates[0].manifest.input.image_size)
                greedy = find_greedy(scored.candidates, states, arguments.data / "greedy")
                parts[name] = with_greedy(second, scored, at, states, greedy)
            else:
                raise ScoreError(f"--score {name}: has no curve; expected one of {', '.join(BY_Q)} or a greedy one")
    curves = {
        name: measure_sizes(part, scored.success, true_success, draws=arguments.draws, rng=np.random.default_rng(0))
        for name, part in parts.items()
    }
    print(f"{arguments.world}: {len(scored.candidates)} candidates, {int(scored.success.sum())} successes\n")
    print(to_markdown(curves))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
