"""`opc collect`: play episodes on simulated arms into a validation store."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

EXAMPLES = """examples:
  opc collect --store store --episodes 300 --world train --policy scripted --image-size 96
  opc collect --store store --episodes 400 --world pseudo_real --policy weaker
  opc collect --store store --episodes 1000 --seed 300       # seeds 300 to 1299

worlds:    train, test, held_out: object sets as drawn; with _mild or _heavy: randomised (train_heavy);
           pseudo_real: stands for hardware where there is none, never trained on
policies:  scripted (60 % success), mostly_random (1 %), weaker (28 %) and better (51 %, both in pseudo_real)

An episode's id follows from world, policy, picture size and seed: a second run adds only what is missing.
"""


def add_parser(verbs: Any) -> None:
    """Say what `opc collect` takes."""
    parser = verbs.add_parser(
        "collect",
        help="play episodes on simulated arms into a store",
        description="Play episodes of a behaviour policy on simulated arms into a validation store.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", required=True, metavar="DIR", help="made if there is none yet")
    parser.add_argument("--episodes", type=int, required=True, metavar="N")
    parser.add_argument("--world", default="train", help="default: train")
    parser.add_argument("--policy", default="scripted", help="default: scripted")
    parser.add_argument("--image-size", type=int, default=472, metavar="PIXELS", help="default: 472")
    parser.add_argument("--seed", type=int, default=0, help="of the first episode; the others follow it (default: 0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--robot", default="twin", help="name the episodes carry (default: twin)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Collect what the store lacks, and say what came of it."""
    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.errors import ConfigError
    from opc_ros.store import open_store
    from sim_bridge.collecting import CollectionPlan, collect

    if arguments.episodes < 1 or arguments.seed < 0:
        raise ConfigError(
            f"{arguments.episodes} episodes from seed {arguments.seed}: expected at least 1, from 0 or more"
        )
    plan = CollectionPlan(arguments.world, arguments.policy, arguments.image_size, arguments.robot)
    with open_store(arguments.store, create=True) as store, progress_bar("collecting") as report:
        there = {episode_id for _, episode_id in store.layout.sidecars()}
        seeds = range(arguments.seed, arguments.seed + arguments.episodes)
        missing = [seed for seed in seeds if plan.episode_id(seed) not in there]
        added = successes = 0
        for episode in collect(plan, missing, workers=arguments.workers):
            store.append(episode)
            added += 1
            successes += episode.label.is_success is True
            report(added, len(missing), f"{successes / added:.0%} succeed")
    summary = {
        "store": str(store.path),
        "world": plan.world,
        "policy": plan.policy,
        "added": added,
        "already_there": len(seeds) - len(missing),
        "successes_added": successes,
    }
    print(json.dumps(summary) if arguments.json else _describe(summary))
    return 0


def _describe(summary: dict[str, Any]) -> str:
    added, there = summary["added"], summary["already_there"]
    rate = f", {summary['successes_added'] / added:.1%} of them succeed" if added else ""
    before = f"; {there} were there already" if there else ""
    return f"{summary['store']}: {added} episodes of {summary['policy']} in {summary['world']} added{rate}{before}"
