"""How fast scores are, as ratios measured in one run: python -m tests.benchmarks.bench_scores"""

from __future__ import annotations

import io
import os
import tracemalloc
from contextlib import redirect_stdout
from functools import partial

# One thread, so that processor time is work and not threads waiting for each other; set before numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from opc_ros.scoring import (
    bootstrap_scores,
    compute_metric,
    discounted_sum_of_advantages,
    final_rewards,
    mcc_error,
    opc,
    soft_opc,
    td_error,
)
from tests.benchmarks.timing import fastest_s


def bench_opc_against_sort() -> None:
    rng = np.random.default_rng(0)
    transitions, steps = 10_000_000, 20
    lengths = np.full(transitions // steps, steps)
    success = rng.random(lengths.size) < 0.4
    for dtype in (np.float64, np.float32):
        q = (rng.random(transitions) + 0.1 * np.repeat(success, lengths)).astype(dtype)
        sort_s = fastest_s(partial(np.sort, q), 5)
        opc_s = fastest_s(partial(opc, q, lengths, success), 5)
        print(f"opc of 10 million {dtype.__name__}: {opc_s:.3f} s, {opc_s / sort_s:.2f} times np.sort (goal at most 4)")
        tracemalloc.start()
        opc(q, lengths, success)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"opc of 10 million {dtype.__name__}: peak memory {peak / q.nbytes:.2f} times the array")


def _bootstrap(q: list[np.ndarray], lengths: np.ndarray, success: np.ndarray, metric: str, resamples: int) -> object:
    return bootstrap_scores(q, lengths, success, metric=metric, resamples=resamples, rng=np.random.default_rng(1))


def bench_bootstrap() -> None:
    rng = np.random.default_rng(0)
    resamples, candidates, episodes, steps = 2000, 15, 4000, 20
    lengths = np.full(episodes, steps)
    success = rng.random(episodes) < 0.4
    q = [
        rng.random(episodes * steps)
        + 0.5 * rng.random() * np.repeat(success, lengths)
        + 0.3 * np.repeat(rng.normal(size=episodes), lengths)
        for _ in range(candidates)
    ]
    goals: tuple[tuple[str, int], ...] = (("opc", 10), ("soft_opc", 100))
    for metric, goal in goals:
        joint_s = fastest_s(
            partial(_bootstrap, q, lengths, success, metric, resamples),
            3,
        )
        tried = 4

        def score_each(metric: str = metric, tried: int = tried) -> None:
            draw = np.random.default_rng(1).choice
            for _ in range(tried):
                strata = np.flatnonzero(success), np.flatnonzero(~success)
                chosen = np.concatenate([draw(stratum, stratum.size) for stratum in strata])
                rows = (chosen[:, None] * steps + np.arange(steps)).ravel()
                for values in q:
                    compute_metric(metric, values[rows], lengths[chosen], success[chosen])

        each_s = fastest_s(score_each, 5) * resamples / tried
        print(
            f"{metric} bootstrap of {resamples} x {candidates} candidates x {episodes} episodes: {joint_s:.2f} s, "
            f"{each_s / joint_s:.0f} times faster than {each_s:.0f} s for one call each (goal at least {goal})"
        )


def bench_against_d3rlpy() -> None:
    from d3rlpy.dataset import MDPDataset
    from d3rlpy.metrics import DiscountedSumOfAdvantageEvaluator, SoftOPCEvaluator, TDErrorEvaluator

    from tests.scoring.q_table import QTable

    rng = np.random.default_rng(0)
    episodes, steps = 1000, 20
    lengths = np.full(episodes, steps)
    success = rng.random(episodes) < 0.4
    q = rng.random(episodes * steps)
    greedy = q + rng.random(q.size)
    rewards = final_rewards(lengths, success)
    with redirect_stdout(io.StringIO()):  # it prints what it guessed
        dataset = MDPDataset(
            observations=np.arange(q.size, dtype=np.float64)[:, None],
            actions=np.zeros((q.size, 1)),
            rewards=rewards[:, None],
            terminals=np.tile([0.0] * (steps - 1) + [1.0], episodes),
        )
    table = QTable(q, greedy, 1.0)
    evaluators = (SoftOPCEvaluator(1.0), TDErrorEvaluator(), DiscountedSumOfAdvantageEvaluator())

    def score_ours() -> None:
        opc(q, lengths, success)
        soft_opc(q, lengths, success)
        td_error(q, greedy, lengths, rewards)
        discounted_sum_of_advantages(q, greedy, lengths)
        mcc_error(q, greedy, lengths, rewards)

    ours_s = fastest_s(score_ours, 20)
    theirs_s = fastest_s(lambda: [evaluator(table, dataset) for evaluator in evaluators], 3)
    print(
        f"all scores of 1000 episodes x 20 steps: {1e3 * ours_s:.2f} ms, "
        f"{theirs_s / ours_s:.0f} times faster than d3rlpy's three evaluators (goal at least 10)"
    )


if __name__ == "__main__":
    bench_opc_against_sort()
    bench_bootstrap()
    bench_against_d3rlpy()
