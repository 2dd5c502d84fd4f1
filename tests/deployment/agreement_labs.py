"""Does the agreement rule close the gate when scores mislead, and leave it open when they do not?

    python -m tests.deployment.agreement_labs --labs 100

The paper's fifteen models with their true success. The five with the best scores are tried, 20 episodes each, as a lab
would that trusts them; then five of the others as well, as exploration slots do. Scores are the published ones, whose
rank correlation with success is .98, or shuffled ones that say nothing. The rule is that of config/gate.yaml: closed if
the interval lies below its bound, open if it lies above, and unknown in between.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from opc_ros.cli.deploy_simulation import published_table
from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.ranking import spearman
from opc_ros.ranking.forecast import forecast

TRIED, EPISODES = 5, 20


def try_lab(
    scores: np.ndarray, rates: np.ndarray, explored: int, bound: float, rng: np.random.Generator
) -> tuple[str, str]:
    """What the rule says, and what a comparison of scores and results of the tried ones alone would say."""
    order = np.argsort(-scores, kind="stable")
    tried = np.concatenate([order[:TRIED], rng.permutation(order[TRIED:])[:explored]])
    trials = np.zeros(scores.size, dtype=int)
    trials[tried] = EPISODES
    successes = rng.binomial(trials, rates)
    ids = [str(index) for index in range(scores.size)]
    field = forecast(ids, scores.tolist(), list(zip(successes.tolist(), trials.tolist(), strict=True)), ids)
    found = field.agreement()
    said = "closed" if found.high < bound else "unknown" if found.low < bound else "open"
    seen = successes[tried]
    naive = "closed" if np.ptp(seen) == 0 or spearman(scores[tried], seen) < bound else "open"
    return said, naive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gate", type=Path, default=Path("config/gate.yaml"))
    given = parser.parse_args()
    bound = load_config(given.gate, GateRules).agreement.spearman
    rng = np.random.default_rng(given.seed)
    table = published_table()
    print(f"{'':<44} open  unknown  closed   closed, by the tried ones alone")
    for name, is_shuffled in (("published scores", False), ("scores that say nothing", True)):
        for explored in (0, 5):
            said = []
            for _ in range(given.labs):
                scores = rng.permutation(table.scores) if is_shuffled else table.scores
                said.append(try_lab(scores, table.rates, explored, bound, rng))
            shares = [np.mean([each[0] == word for each in said]) for word in ("open", "unknown", "closed")]
            naive = np.mean([each[1] == "closed" for each in said])
            what = f"{name}, best {TRIED}" + (f" and {explored} others" if explored else " alone")
            print(f"{what:<44} {shares[0]:>4.0%} {shares[1]:>8.0%} {shares[2]:>7.0%} {naive:>31.0%}", flush=True)


if __name__ == "__main__":
    main()
