"""`opc demo`: the whole loop from end to end on this machine, with real ROS 2 processes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from opc_ros.cli.argument_types import number, whole_number

EXAMPLES = """examples:
  opc demo
  opc demo --stay    # and look around in the console
  opc demo --episodes 100 --candidates ./candidates --folder /tmp/opc-demo

Nothing is prepared except the candidates, which were trained on other objects in another world. The pseudo-real
world stands in for hardware. Ctrl-C stops it at any point and leaves no process. It uses a free ROS
domain, or the one in ROS_DOMAIN_ID."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="run the whole loop from end to end on this machine",
        description="Record on two pseudo-real arms over ROS 2, score the shipped candidates on it, ask the gate, "
        "run those that pass on the arms, and name a champion.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where its runs go (default: ./demo)")
    parser.add_argument(
        "--episodes", type=whole_number(1), default=12, help="episodes to record, on both arms together (default 12)"
    )
    parser.add_argument("--candidates", type=Path, help="folder that holds the candidates (default: the shipped zoo)")
    parser.add_argument(
        "--most", type=whole_number(1), default=19, metavar="N", help="at most this many of them (default 19)"
    )
    parser.add_argument(
        "--history", type=whole_number(0), default=6, metavar="N", help="episodes of each earlier policy (default 6)"
    )
    parser.add_argument("--robots", default="arm1,arm2", help="comma-separated names (default arm1,arm2)")
    parser.add_argument("--policy", default="better", help="behaviour policy that collects (default better)")
    parser.add_argument(
        "--image-size",
        type=whole_number(16, 4096),
        default=96,
        metavar="PIXELS",
        help="image size of the cameras (default 96)",
    )
    parser.add_argument(
        "--real-time-factor",
        type=number(0.01, 100),
        default=6.0,
        help="speed of the twins relative to real time (default 6)",
    )
    parser.add_argument("--seed", type=whole_number(0), default=0, help="seed of what is in the bins (default 0)")
    parser.add_argument("--gate", default="gate_demo.yaml", help="rules of the gate (default gate_demo.yaml)")
    parser.add_argument(
        "--scheduler", default="scheduler_demo.yaml", help="rules of the scheduler (default scheduler_demo.yaml)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a smaller lab: 5 candidates, 2 episodes of each earlier policy, 6 recorded",
    )
    parser.add_argument("--stay", action="store_true", help="keep lab and console up afterwards, until Ctrl-C")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.bringup.checks import require_ros
    from opc_ros.bringup.supervisor import heed_signals
    from opc_ros.demo.candidates import choose_candidates
    from opc_ros.demo.plan import DemoPlan
    from opc_ros.demo.screen import Screen
    from opc_ros.demo.truth import read_truth
    from opc_ros.experiments.zoo_tables import FOLDER

    if arguments.quick:
        arguments.most, arguments.history, arguments.episodes = 5, 2, 6
    plan = DemoPlan(
        folder=(arguments.folder / time.strftime("run-%Y%m%d-%H%M%S")).absolute(),
        zoo=(arguments.candidates or _zoo()).resolve(),
        earlier=_zoo().parent / "earlier",
        history_episodes=arguments.history,
        truth=None if arguments.candidates else FOLDER / "zoo_pseudo_real.csv",
        robots=tuple(arguments.robots.split(",")),
        episodes=arguments.episodes,
        most_candidates=arguments.most,
        policy=arguments.policy,
        image_size=arguments.image_size,
        real_time_factor=arguments.real_time_factor,
        seed=arguments.seed,
        gate_config=arguments.gate,
        scheduler_config=arguments.scheduler,
        is_staying=arguments.stay,
    )
    choose_candidates(
        plan.zoo, plan.most_candidates, read_truth(plan.truth)
    )  # refuse now, not after minutes of recording
    require_ros()
    heed_signals()
    plan.folder.mkdir(parents=True)
    screen = Screen()
    with _domain(plan.robots):
        from opc_ros.demo.loop import run_loop

        try:
            run_loop(plan, screen)
        finally:
            screen.clear()
    return 0


@contextmanager
def _domain(robots: Iterable[str]) -> Iterator[None]:
    """Use the domain in the environment, or else a free one that is kept to this machine."""
    import os

    from opc_ros.bringup.domain import claim_domains, claim_free_domain, read_domain, share_out_domains
    from opc_ros.bringup.lab_names import NAMESPACE
    from opc_ros.bringup.reach import stay_on_this_machine

    os.environ.pop(NAMESPACE, None)  # the demo does not share its domain
    if os.environ.get("ROS_DOMAIN_ID"):
        domain = read_domain(os.environ)
        with claim_domains([domain, *share_out_domains(domain, dict.fromkeys(robots)).values()], "opc demo"):
            os.environ.update(stay_on_this_machine())
            yield
        return
    with claim_free_domain("opc demo", robots) as environment:
        os.environ.update(environment)
        yield


def _zoo() -> Path:
    import sim_bridge

    return Path(sim_bridge.__file__).parent / "zoo" / "candidates"
