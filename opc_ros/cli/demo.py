"""`opc demo`: the main job from end to end on this machine, with real ROS 2 processes."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """examples:
  opc demo
  opc demo --episodes 20 --robots 2 --folder /tmp/opc-demo

What it shows is what happened: nothing is prepared. Ctrl-C stops it at any point and leaves no process."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="run the main job from end to end on this machine",
        description="Bring up arms and recorders as ROS 2 processes, record episodes, and look at what was stored.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where its runs go (default: ./demo)")
    parser.add_argument("--robots", type=int, default=2, help="how many arms (default 2)")
    parser.add_argument("--episodes", type=int, default=4, help="episodes each arm plays (default 4)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import signal
    import time

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder: Path = arguments.folder / time.strftime("run-%Y%m%d-%H%M%S")
    store = folder / "store"
    folder.mkdir(parents=True)
    _head(f"1. {arguments.robots} scripted arms (a fake without physics) and their recorders, over DDS")
    if not _record(arguments, store):
        return 1
    _head("2. What the validation store holds")
    _show(store)
    return 0


def _record(arguments: argparse.Namespace, store: Path) -> bool:
    """Bring the system up and wait until each arm's episodes are committed."""
    from opc_ros.bringup.domain import claim_free_domain
    from opc_ros.bringup.supervisor import Supervisor, write_line
    from opc_ros.bringup.systems import find_system

    wanted = arguments.robots * arguments.episodes
    robots = ",".join(f"arm{number + 1}" for number in range(arguments.robots))
    given = {"robots": robots, "store": str(store), "episodes": str(arguments.episodes)}
    nodes = find_system("scripted").nodes(given)

    def is_recorded() -> bool:
        outcomes = (*store.glob("episodes/*/*.json"), *store.glob("quarantine/**/*.json"))
        return len(outcomes) >= wanted

    with (
        claim_free_domain("opc demo") as environment,
        Supervisor(nodes, write_line, environment=environment) as running,
    ):
        return running.wait(until=is_recorded) == 0


def _show(store: Path) -> None:
    from opc_ros.store import open_store, tally_store

    with open_store(store) as opened:
        episodes = list(opened.episodes())
        snapshot = opened.take_snapshot(tag="demo")
    for episode in episodes:
        outcome = {True: "success", False: "failure", None: "unlabelled"}[episode.label.is_success]
        print(f"{episode.id}  {episode.steps:>3} steps  {outcome:<10} sha256 {episode.file_sha256[:12]}")
    total = tally_store(episodes).total
    print(f"{total.episodes} episodes, {total.successes} successes, {total.file_bytes / 1e6:.1f} MB")
    print(f"snapshot {snapshot.id[:12]}, tagged demo, is what a score on them would name")


def _head(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m", flush=True)
