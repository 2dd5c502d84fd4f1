"""Labs that look again and again: how often the gate ever passes a bad candidate, and how often a good one.

    python -m tests.deployment.gate_labs --labs 100

Every lab has fifteen candidates of known success and no history. Between looks episodes at reduced speed go to whoever
the scheduler's exploration picks; at each look the gate is asked about everybody, with the rules of config/gate.yaml.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.race import choose_by_results, choose_next, goes_by_results
from opc_ros.deployment.race_belief import RaceBelief
from opc_ros.ranking.success_model import chance_above, chance_within
from opc_ros.ranking.synthetic_labs import CORRELATIONS, SHAPE_NAMES, SyntheticLabs, draw_labs

LOOKS, BATCH = 25, 5
POINTS = 64  # of the model


def passes(labs: SyntheticLabs, rules: GateRules, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Who ever passes in 25 looks with so many episodes between, (R, K)."""
    belief = RaceBelief(labs.scores)
    every = np.arange(len(labs.rates))
    successes, trials = np.zeros(labs.rates.shape), np.zeros(labs.rates.shape)
    ever = np.zeros(labs.rates.shape, dtype=bool)
    for look in range(LOOKS):
        density = belief.densities(every, POINTS, rng, is_even=True)
        within = chance_within(density, rules.within.tolerance).mean(axis=1)
        above = chance_above(density, rules.floor.success).mean(axis=1)
        ever |= (within >= rules.within.confidence) & (above >= rules.floor.confidence)
        for batch in range(look * episodes // BATCH, (look + 1) * episodes // BATCH):
            if goes_by_results(batch):
                picked = choose_by_results(successes, trials, rng)
            else:
                picked = choose_next(belief.densities(every, 2, rng), rng)
            trials[every, picked] += BATCH
            successes[every, picked] += rng.binomial(BATCH, labs.rates[every, picked])
            belief.learn(every, picked, successes[every, picked], trials[every, picked])
    return ever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=20, help="between two looks (default 20)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only labs whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gate", type=Path, default=Path("config/gate.yaml"))
    given = parser.parse_args()
    rules = load_config(given.gate, GateRules)
    print(f"{'':<32} bad one ever passes   a good one passes   each good one passes")
    for number, shape in enumerate(SHAPE_NAMES):
        for correlation in CORRELATIONS:
            name = f"{shape}, correlation {correlation:g}"
            if given.only not in name:
                continue
            rng = np.random.default_rng([given.seed, number, round(100 * correlation)])
            labs = draw_labs(shape, correlation, given.labs, rng)
            ever = passes(labs, rules, given.episodes, rng)
            below = labs.rates.max(axis=1, keepdims=True) - labs.rates
            bad, good = below > 0.15, below <= 0.05
            is_wrong = (ever & bad).any(axis=1).mean()
            is_right = (ever & good).any(axis=1).mean()
            each = (ever & good).sum() / good.sum()
            print(f"{name:<32} {is_wrong:>19.1%} {is_right:>19.1%} {each:>22.1%}", flush=True)


if __name__ == "__main__":
    main()
