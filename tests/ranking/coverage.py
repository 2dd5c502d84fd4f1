"""How often 95 % intervals of scores contain the score of an infinite validation set.

    python -m tests.ranking.coverage --sets 200

Sets of 50, 200 and 1,000 episodes of 2 to 12 steps, 40 % of them successes. Q differs between episodes and between
steps; a strong candidate rates successes higher by twice that, a middling one by half of it, a weak one not at all. The
score of an infinite set is taken from 200,000 episodes. Goal: 93 to 97 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from opc_ros.scoring import bootstrap_scores, compute_metric, score_intervals
from opc_ros.scoring.bootstrap import score_bias

METRICS = ("soft_opc", "opc", "soft_opc_over_spread")
SIZES = (50, 200, 1000)
STRENGTHS = {"weak": 0.0, "middling": 0.5, "strong": 2.0}
ENDLESS = 200_000

Set = tuple[np.ndarray, np.ndarray, np.ndarray]  # q, lengths, success


def draw_set(episodes: int, strength: float, rng: np.random.Generator) -> Set:
    lengths = rng.integers(2, 13, size=episodes)
    success = rng.random(episodes) < 0.4
    by_episode = 0.5 * rng.normal(size=episodes) + strength * success
    q = np.repeat(by_episode, lengths) + 0.8 * rng.normal(size=int(lengths.sum()))
    return 1.0 / (1.0 + np.exp(-q)), lengths, success


def measure(
    metric: str, episodes: int, strength: float, true: float, sets: int, resamples: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Share of intervals that contain the true score, and the mean error of the score as it is and without its bias."""
    held, raw, unbiased = 0, 0.0, 0.0
    for _ in range(sets):
        q, lengths, success = draw_set(episodes, strength, rng)
        score = np.array([compute_metric(metric, q, lengths, success)])
        samples = bootstrap_scores([q], lengths, success, metric=metric, resamples=resamples, rng=rng)
        rarer = int(min(success.sum(), (~success).sum()))
        low, high = score_intervals(score, samples, 0.95, metric, rarer=rarer)[0]
        held += low <= true <= high
        raw += score[0] - true
        unbiased += score[0] - score_bias(score, samples, metric)[0] - true
    return held / sets, raw / sets, unbiased / sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--metric", choices=METRICS, default=None)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    print(f"{'':<44} held    error of the score, and without bias")
    for metric in (given.metric,) if given.metric else METRICS:
        for name, strength in STRENGTHS.items():
            true = compute_metric(metric, *draw_set(ENDLESS, strength, rng))
            for episodes in SIZES:
                held, raw, unbiased = measure(metric, episodes, strength, true, given.sets, given.resamples, rng)
                what = f"{metric}, {name}, {episodes:,} episodes"
                print(f"{what:<44} {held:>6.1%} {raw:>+10.4f} {unbiased:>+10.4f}", flush=True)


if __name__ == "__main__":
    main()
