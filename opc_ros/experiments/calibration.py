"""Whether predicted success means what it says: coverage and reliability on candidates whose results were hidden.

python -m opc_ros.experiments.calibration --labs 100 --plot opc_ros/experiments/plots/calibration.png
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binom

from opc_ros.experiments.figures import save_figure
from opc_ros.experiments.zoo_tables import WORLDS, ZooTable, read_zoo_table
from opc_ros.ranking.predicted_success import Field, PredictedSuccess, predict_success
from opc_ros.ranking.success_model import RATES
from opc_ros.ranking.synthetic_labs import CORRELATIONS, SHAPE_NAMES, ShapeName, degrade_scores, draw_rates

HISTORY, HISTORY_EPISODES, NEW = 30, 50, 15  # of a synthetic lab


@dataclass(frozen=True, slots=True)
class Hidden:
    """What was predicted for candidates whose results were hidden, and where within the prediction the results lie."""

    place: np.ndarray  # (n,) in 0 to 1: the predicted probability of a lower result
    width: np.ndarray  # (n,) of 95 % intervals
    chance_above: np.ndarray  # (n,) predicted chance of being in the better half
    is_above: np.ndarray  # (n,)

    def coverage(self, confidence: float) -> float:
        """Share of results inside the interval of this confidence."""
        tail = (1.0 - confidence) / 2.0
        return float(np.mean((self.place >= tail) & (self.place <= 1.0 - tail)))


def leave_one_family_out(table: ZooTable) -> Hidden:
    """Predict each family from the results of all others."""
    found = []
    middle = float(np.median(table.successes / table.trials))
    for family in sorted(set(table.families)):
        is_hidden = np.array([each == family for each in table.families])
        seen = np.where(is_hidden, 0, table.successes), np.where(is_hidden, 0, table.trials)
        predicted = predict_success(Field.of(table.scores, *seen, table.families))
        index = np.flatnonzero(is_hidden)
        found.append(_compare_with_counts(predicted, index, table.successes[index], table.trials[index], middle))
    return _join(found)


def hide_in_synthetic_labs(shape: ShapeName, correlation: float, labs: int, rng: np.random.Generator) -> Hidden:
    """Labs with a history of tried candidates; success is predicted for new ones and compared with their true rate."""
    found = []
    for _ in range(labs):
        rates = draw_rates(shape, 1, HISTORY + NEW, rng)
        scores = degrade_scores(rates, correlation, rng)[0]
        trials = rng.permutation(np.where(np.arange(HISTORY + NEW) < HISTORY, HISTORY_EPISODES, 0))
        predicted = predict_success(Field.of(scores, rng.binomial(trials, rates[0]), trials))
        index = np.flatnonzero(trials == 0)
        many = 1_000_000  # enough episodes to make the rate as good as exact
        found.append(_compare_with_counts(predicted, index, np.rint(rates[0, index] * many), many, 0.5))
    return _join(found)


def _compare_with_counts(
    predicted: PredictedSuccess, index: np.ndarray, successes: np.ndarray, trials: np.ndarray | int, middle: float
) -> Hidden:
    density = predicted.marginal()[index]
    if np.ndim(trials) == 0:
        rate = successes / trials
        place = np.array([predicted.below(float(value))[at] for at, value in zip(index, rate, strict=True)])
    else:
        fewer = binom.cdf(successes[:, None] - 1, np.asarray(trials)[:, None], RATES)
        equal = binom.pmf(successes[:, None], np.asarray(trials)[:, None], RATES)
        place = (density * (fewer + equal / 2)).sum(axis=1)
        rate = successes / np.asarray(trials)
    interval = predicted.interval()[index]
    return Hidden(place, interval[:, 1] - interval[:, 0], predicted.above(middle)[index], rate >= middle)


def _join(found: list[Hidden]) -> Hidden:
    return Hidden(
        np.concatenate([each.place for each in found]),
        np.concatenate([each.width for each in found]),
        np.concatenate([each.chance_above for each in found]),
        np.concatenate([each.is_above for each in found]),
    )


def draw_reliability(zoo: dict[str, Hidden], synthetic: Hidden, path: Path) -> None:
    """Coverage against nominal confidence, and how often events with a predicted chance of p happen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    nominal = np.linspace(0.05, 0.99, 40)
    for name, hidden in zoo.items():
        left.plot(nominal, [hidden.coverage(each) for each in nominal], label=f"zoo, {name} ({hidden.place.size})")
    left.plot(nominal, [synthetic.coverage(each) for each in nominal], label="synthetic labs", linestyle="--")
    left.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    left.set(xlabel="confidence of the interval", ylabel="share of hidden results inside")
    left.legend()
    everyone = _join(list(zoo.values()))
    for label, hidden in (("zoo, all worlds", everyone), ("synthetic labs", synthetic)):
        edges = np.linspace(0.0, 1.0, 7)
        group = np.clip(np.digitize(hidden.chance_above, edges) - 1, 0, 5)
        groups = [each for each in range(6) if np.any(group == each)]
        said = [hidden.chance_above[group == each].mean() for each in groups]
        came = [hidden.is_above[group == each].mean() for each in groups]
        right.plot(said, came, marker="o", label=label)
    right.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    right.set(xlabel="predicted chance of lying in the better half", ylabel="how often it does")
    right.legend()
    save_figure(figure, path)


def main() -> None:
    """Print all figures, and plot them."""
    parser = argparse.ArgumentParser(description="Coverage of predicted success.")
    parser.add_argument("--labs", type=int, default=100, help="synthetic ones of each kind (default: 100)")
    parser.add_argument("--metric", default="soft_opc_over_spread")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=None)
    given = parser.parse_args()
    zoo = {world: leave_one_family_out(read_zoo_table(world, given.metric)) for world in WORLDS}
    print(f"{'':<28} {'hidden':>6} {'95 %':>6} {'80 %':>6} {'50 %':>6} {'width':>6}")
    for world, hidden in zoo.items():
        print(_describe(f"zoo, {world}", hidden))
    print(_describe("zoo, all", _join(list(zoo.values()))))
    rng = np.random.default_rng(given.seed)
    synthetic = []
    for shape in SHAPE_NAMES:
        for correlation in CORRELATIONS:
            hidden = hide_in_synthetic_labs(shape, correlation, given.labs, rng)
            synthetic.append(hidden)
            print(_describe(f"{shape}, correlation {correlation:g}", hidden), flush=True)
    print(_describe("synthetic, all", _join(synthetic)))
    if given.plot is not None:
        draw_reliability(zoo, _join(synthetic), given.plot)


def _describe(name: str, hidden: Hidden) -> str:
    shares = " ".join(f"{hidden.coverage(each):>6.1%}" for each in (0.95, 0.8, 0.5))
    return f"{name:<28} {hidden.place.size:>6} {shares} {hidden.width.mean():>6.2f}"


if __name__ == "__main__":
    main()
