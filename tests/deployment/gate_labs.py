"""Labs that look again and again: how often the gate ever passes a bad candidate, and how often a good one.

    python -m tests.deployment.gate_labs --labs 300

Every lab has fifteen candidates of known success and no history. At each look the gate is asked about every candidate,
with the rules of config/gate.yaml. Between looks episodes at reduced speed go to the candidate that the scheduler's
exploration picks among those that the gate leaves open and that have not used up config/scheduler.yaml's
exploration_episodes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from opc_ros.bringup.lab import load_scheduler_rules
from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.race import choose_by_results, choose_next, find_duel, goes_by_results
from opc_ros.deployment.race_belief import RaceBelief
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.ranking.success_model import chance_above, chance_within
from opc_ros.ranking.synthetic_labs import CORRELATIONS, SHAPE_NAMES, SyntheticLabs, draw_labs

LOOKS = 25
POINTS, POINTS_TO_EXPLORE = 64, 16  # of the model
AT_ONCE = 100  # labs


def passes(
    labs: SyntheticLabs, rules: GateRules, scheduler: SchedulerRules, episodes: int, rng: np.random.Generator
) -> np.ndarray:
    """Which candidates ever pass in 25 looks with this many episodes in between, (R, K)."""
    rows = [slice(first, first + AT_ONCE) for first in range(0, len(labs.rates), AT_ONCE)]
    parts = [SyntheticLabs(labs.rates[each], labs.scores[each]) for each in rows]
    return np.concatenate([_passes(part, rules, scheduler, episodes, rng) for part in parts])


def _passes(
    labs: SyntheticLabs, rules: GateRules, scheduler: SchedulerRules, episodes: int, rng: np.random.Generator
) -> np.ndarray:
    belief = RaceBelief(labs.scores)
    successes, trials = np.zeros(labs.rates.shape), np.zeros(labs.rates.shape)
    ever = np.zeros(labs.rates.shape, dtype=bool)
    size, most = scheduler.race.batch_episodes, scheduler.exploration_episodes
    for look in range(LOOKS):
        density = belief.densities(np.arange(len(labs.rates)), POINTS, rng, is_even=True)
        within = chance_within(density, rules.within.tolerance).mean(axis=1)
        above = chance_above(density, rules.floor.success).mean(axis=1)
        ever |= (within >= rules.within.confidence) & (above >= rules.floor.confidence)
        is_open = ~ever & (within >= rules.within.doubt) & (above >= rules.floor.doubt)
        for batch in range(look * episodes // size, (look + 1) * episodes // size):
            may_run = is_open & (trials < most)
            running = np.flatnonzero(may_run.any(axis=1))
            if not running.size:
                break
            if goes_by_results(batch):
                picked = choose_by_results(successes[running], trials[running], rng, may_run[running])
            else:
                density = belief.densities(running, POINTS_TO_EXPLORE, rng, is_even=True)
                weight = np.full(density.shape[:2], 1.0 / POINTS_TO_EXPLORE, dtype=density.dtype)
                picked = choose_next(find_duel(weight, density, scheduler.exploration_tolerance, may_run[running]), rng)
            trials[running, picked] += size
            successes[running, picked] += rng.binomial(size, labs.rates[running, picked])
            belief.learn(running, picked, successes[running, picked], trials[running, picked])
    return ever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=20, help="between two looks (default 20)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only labs whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gate", type=Path, default=Path("config/gate.yaml"))
    parser.add_argument("--scheduler", type=Path, default=Path("config/scheduler.yaml"))
    given = parser.parse_args()
    rules, scheduler = load_config(given.gate, GateRules), load_scheduler_rules(given.scheduler)
    print(f"{given.labs} labs of each kind; +- is the standard error")
    print(f"{'':<32} bad one ever passes    a good one passes   each good one passes")
    for number, shape in enumerate(SHAPE_NAMES):
        for correlation in CORRELATIONS:
            name = f"{shape}, correlation {correlation:g}"
            if given.only not in name:
                continue
            rng = np.random.default_rng([given.seed, number, round(100 * correlation)])
            labs = draw_labs(shape, correlation, given.labs, rng)
            ever = passes(labs, rules, scheduler, given.episodes, rng)
            below = labs.rates.max(axis=1, keepdims=True) - labs.rates
            bad, good = below > 0.15, below <= 0.05
            is_wrong = (ever & bad).any(axis=1).mean()
            is_right = (ever & good).any(axis=1).mean()
            each = (ever & good).sum() / good.sum()
            shares = [f"{share:.1%} +- {_error(share, given.labs):.1%}" for share in (is_wrong, is_right)]
            print(f"{name:<32} {shares[0]:>19} {shares[1]:>20} {each:>22.1%}", flush=True)


def _error(share: float, labs: int) -> float:
    return float(np.sqrt(share * (1.0 - share) / labs))


if __name__ == "__main__":
    main()
