"""`opc store replay`: publish a recorded episode on its topics again."""

from __future__ import annotations

import argparse
import json

from opc_ros.cli.store_arguments import Verbs, add_verb, open_existing

EXAMPLES = """examples:
  opc store replay arm1-20261118T045802.032819
  opc store replay arm1-20261118T045802.032819 --rate 0.5 --store /data/store

It publishes the recorded messages, byte for byte, on their topics and with their timing; listen with Foxglove, RViz,
`ros2 topic echo` or your own node. Timestamps stay those of the recording. Do not replay where an arm listens."""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    parser = add_verb(verbs, "replay", help="publish an episode on its topics again", examples=EXAMPLES)
    parser.add_argument("episode")
    parser.add_argument("--rate", type=float, default=1.0, help="how many times as fast (default: 1)")
    parser.add_argument("--wait-s", type=float, default=2.0, help="longest wait for subscribers (default: 2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find the file, publish it, and report how many messages that was."""
    from opc_ros.bringup.checks import require_ros
    from opc_ros.errors import ConfigError

    if not arguments.rate > 0.0:
        raise ConfigError(f"--rate: got {arguments.rate:g}, expected above 0")
    with open_existing(arguments) as store:
        path = store.file_of(arguments.episode)
    require_ros()
    from opc_ros.ros.replay import replay

    count = replay(path, rate=arguments.rate, wait_s=arguments.wait_s)
    episode = arguments.episode
    print(json.dumps({"episode": episode, "messages": count}) if arguments.json else f"{episode}: {count} messages")
    return 0
