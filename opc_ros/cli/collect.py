"""`opc collect`: play episodes on simulated arms into a validation store."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from opc_ros.cli.argument_types import number, whole_number

if TYPE_CHECKING:
    from opc_ros.episode import Episode
    from sim_bridge.collecting import Plan

DEFAULT_SIZE = 472

EXAMPLES = """examples:
  opc collect --store store --episodes 300 --world train --policy scripted --image-size 96
  opc collect --store store --episodes 400 --world pseudo_real --policy weaker
  opc collect --store store --episodes 1000 --seed 300       # seeds 300 to 1299
  opc collect --store store --episodes 300 --world test --candidate candidates/first-00600 --epsilon 0.1
  opc collect --store store --episodes 20 --through-ros --robot arm1,arm2 --world pseudo_real --policy better
  opc collect --store store --episodes 300 --arm arm_panda_twin.yaml    # another arm in the same worlds

worlds:    train, test, held_out: object sets as drawn; with _mild or _heavy: randomised (train_heavy);
           pseudo_real: stands in for hardware; never trained on
policies:  scripted (60 % success), mostly_random (1 %), weaker (28 %) and better (51 %, both in pseudo_real)

candidate: plays the action its Q function likes best; its episodes name its id as their behaviour policy

An episode's id follows from world, policy, image size and seed: a second run adds only what is missing.
Through ROS each robot is a twin behind driver topics with its own recorder, all of them processes over DDS; a second
run adds what is missing from a robot's share. Arms move in real time there: use it to try out recording.
"""


def add_parser(verbs: Any) -> None:
    """Add the parser of `opc collect`."""
    parser = verbs.add_parser(
        "collect",
        help="play episodes on simulated arms into a store",
        description="Play episodes of a behaviour policy on simulated arms into a validation store.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", required=True, metavar="DIR", help="created if it does not exist")
    parser.add_argument("--episodes", type=whole_number(1), required=True, metavar="N")
    parser.add_argument("--world", default="train", help="default: train")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--policy", default="scripted", help="default: scripted")
    who.add_argument("--candidate", type=Path, metavar="FOLDER", help="instead of a policy: this candidate plays")
    parser.add_argument(
        "--epsilon", type=number(0, 1), default=0.0, help="how often the candidate acts at random instead (default: 0)"
    )
    parser.add_argument("--allow-code", action="store_true", help="candidate: load formats that can run code")
    parser.add_argument(
        "--image-size",
        type=whole_number(1, 4096),
        metavar="PIXELS",
        help=f"default: {DEFAULT_SIZE}, or the candidate's",
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, help="seed of the first episode; later ones count up (default: 0)"
    )
    parser.add_argument(
        "--workers", type=whole_number(1), default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    parser.add_argument("--arm", metavar="FILE", help="which arm plays: a path, or a file of config/ (default: an LBR)")
    parser.add_argument(
        "--robot", default="twin", help="robot name of the episodes; through ROS several, comma-separated"
    )
    parser.add_argument("--through-ros", action="store_true", help="through driver topics and recorders, in real time")
    parser.add_argument(
        "--real-time-factor",
        type=number(0.01, 100),
        default=1.0,
        help="through ROS: speed of the twin relative to real time",
    )
    parser.add_argument(
        "--fixed-stamps", action="store_true", help="count time from a fixed day, so that a seed gives the same bytes"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Collect the missing episodes and report the outcome."""
    from opc_ros.errors import ConfigError

    if arguments.episodes < 1 or arguments.seed < 0:
        raise ConfigError(
            f"{arguments.episodes} episodes from seed {arguments.seed}: expected at least 1, from 0 or more"
        )
    if arguments.candidate is None and arguments.epsilon:
        raise ConfigError("--epsilon: behaviour policies have their own, expected together with --candidate")
    if arguments.candidate is not None and arguments.through_ros:
        raise ConfigError("--candidate: plays in this process, expected without --through-ros; see `opc deploy --help`")
    summary = _run_through_ros(arguments) if arguments.through_ros else _run_in_process(arguments)
    print(json.dumps(summary) if arguments.json else _describe(summary))
    return 0


def _run_in_process(arguments: argparse.Namespace) -> dict[str, Any]:
    import time

    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.store import open_store
    from sim_bridge.collecting import collect

    plan, who = _plan(arguments)
    with open_store(arguments.store, create=True) as store, progress_bar("collecting") as report:
        there = set(store.episode_ids())
        seeds = range(arguments.seed, arguments.seed + arguments.episodes)
        missing = [seed for seed in seeds if plan.episode_id(seed) not in there]
        added = successes = 0
        for episode in collect(plan, missing, workers=arguments.workers):
            store.append(episode if arguments.fixed_stamps else _date(episode, time.time_ns()))
            added += 1
            successes += episode.label.is_success is True
            report(added, len(missing), f"{successes / added:.0%} succeed")
    return {
        "store": str(store.path),
        "world": plan.world,
        "policy": who,
        "added": added,
        "already_there": len(seeds) - len(missing),
        "successes_added": successes,
    }


def _date(episode: Episode, now_ns: int) -> Episode:
    """Set the episode's clock so that its last frame is now: the twin's timestamps start at a fixed past date."""
    import dataclasses

    shift_ns = now_ns - episode.steps[-1].frame.stamp_ns
    steps = [
        dataclasses.replace(
            cast(Any, step), frame=dataclasses.replace(step.frame, stamp_ns=step.frame.stamp_ns + shift_ns)
        )
        for step in episode.steps
    ]
    return dataclasses.replace(episode, steps=tuple(steps))


def _plan(arguments: argparse.Namespace) -> tuple[Plan, str]:
    """The player, and the name it is recorded under."""
    from opc_ros.arms.settings import ArmSettings
    from opc_ros.bringup.config_files import find_config
    from opc_ros.config import load_config

    arm = load_config(find_config(arguments.arm), ArmSettings) if arguments.arm else None
    if arguments.candidate is not None:
        from sim_bridge.training.own_play import plan_own_play

        own_play = plan_own_play(
            arguments.candidate,
            arguments.world,
            epsilon=arguments.epsilon,
            image_size=arguments.image_size or 0,
            robot=arguments.robot,
            allow_code=arguments.allow_code,
            arm=arm,
        )
        return own_play, own_play.name
    from sim_bridge.collecting import CollectionPlan

    size = arguments.image_size or DEFAULT_SIZE
    return CollectionPlan(arguments.world, arguments.policy, size, arguments.robot, arm), arguments.policy


def _run_through_ros(arguments: argparse.Namespace) -> dict[str, Any]:
    from opc_ros.cli.collect_through_ros import RosCollection, collect_through_ros
    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.store import open_store

    robots = tuple(arguments.robot.split(","))
    plan = RosCollection(
        robots=robots,
        episodes=-(-arguments.episodes // len(robots)),
        world=arguments.world,
        policy=arguments.policy,
        image_size=arguments.image_size or DEFAULT_SIZE,
        seed=arguments.seed,
        real_time_factor=arguments.real_time_factor,
        arm_config=arguments.arm or "",
    )
    with open_store(arguments.store, create=True) as store, progress_bar("collecting") as report:
        added, successes = collect_through_ros(store, plan, report)
    return {
        "store": str(store.path),
        "world": plan.world,
        "policy": plan.policy,
        "added": added,
        "already_there": plan.episodes * len(robots) - added,
        "successes_added": successes,
    }


def _describe(summary: dict[str, Any]) -> str:
    added, there = summary["added"], summary["already_there"]
    rate = f", {summary['successes_added'] / added:.1%} of them succeed" if added else ""
    before = f"; {there} were there already" if there else ""
    return f"{summary['store']}: {added} episodes of {summary['policy']} in {summary['world']} added{rate}{before}"
