"""Measures how often each behaviour policy succeeds: `python -m sim_bridge.measure_behaviour --help`."""

from __future__ import annotations

import argparse
import os

from sim_bridge.behaviour import BEHAVIOURS
from sim_bridge.collecting import CollectionPlan, collect

_SMALLEST_IMAGE = 8  # scripted policies do not use images


def main() -> None:
    """One line for each policy, against its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first; the others follow it")
    parser.add_argument("--policy", choices=tuple(BEHAVIOURS), action="append", help="default: all")
    parser.add_argument("--world", help="default: the one each policy was tuned in")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.episodes)
    for name in arguments.policy or BEHAVIOURS:
        spec = BEHAVIOURS[name]
        world = arguments.world or spec.tuned_in
        plan = CollectionPlan(world, name, image_size=_SMALLEST_IMAGE)
        episodes = list(collect(plan, seeds, workers=arguments.workers))
        rate = sum(bool(episode.label.is_success) for episode in episodes) / len(episodes)
        steps = sum(len(episode.steps) for episode in episodes) / len(episodes)
        print(
            f"{name} in {world}: {rate:.1%} of {len(episodes)} episodes succeed (target {spec.target_success:.0%}), "
            f"{steps:.1f} steps each",
            flush=True,
        )


if __name__ == "__main__":
    main()
