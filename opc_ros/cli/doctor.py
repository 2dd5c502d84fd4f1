"""`opc doctor`: one line for each thing the system needs, and what to do when it is missing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.argument_types import number

if TYPE_CHECKING:
    from opc_ros.bringup.checks import SystemCheck

EXAMPLES = """examples:
  opc doctor
  opc doctor --store /data/store --camera-topic /arm1/camera/image/compressed
  opc doctor --policy randomised-40k
  opc doctor --robot arm1 --lab lab.yaml       # driver, joints, gripper, camera, clock, guard, gateway
  opc doctor --lab lab.yaml                    # who hears whom, live: every node, its domain, clock and version
  opc doctor --json | jq '.[] | select(.status != "ok")'

Exit 0 when nothing needed is missing, 1 otherwise."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="check what this machine has and what is missing",
        description="Check ROS, interfaces, packages, store, disk, arms and camera.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", type=Path, default=Path("store"), help="validation store (default: ./store)")
    parser.add_argument(
        "--lab",
        nargs="?",
        const="lab.yaml",
        metavar="FILE",
        help="listen for every node of this lab file (a path, or a file in config/) (default: lab.yaml)",
    )
    parser.add_argument("--camera-topic", default="", help="an image topic that must be published")
    parser.add_argument(
        "--wait", type=number(0, 600), default=2.0, metavar="S", help="seconds to look for cameras (default 2)"
    )
    parser.add_argument("--policy", metavar="CANDIDATE", help="only show this candidate as a robot would run it")
    parser.add_argument(
        "--candidates", type=Path, default=Path("candidates"), help="registry for --policy (default: ./candidates)"
    )
    parser.add_argument("--robot", metavar="NAME", help="check only this robot of the lab file, live")
    parser.add_argument("--allow-code", action="store_true", help="let --policy load formats that can run code")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import os
    from itertools import chain

    from opc_ros.bringup.checks import check_machine
    from opc_ros.bringup.domain import read_domain

    if arguments.policy:
        return _show_policy(arguments)
    domain = read_domain(os.environ)
    if arguments.robot:
        return _print_checks(arguments, _look_at_robot(arguments, domain))

    def find_cameras() -> list[str]:
        from opc_ros.ros.discovery import find_image_topics

        return find_image_topics(timeout_s=arguments.wait)

    def find_obeyed(topics: Iterable[str]) -> list[str]:
        from opc_ros.ros import discovery

        return discovery.find_obeyed(topics, timeout_s=arguments.wait / 2)

    found = check_machine(
        arguments.store, find_cameras, arguments.camera_topic, lab=arguments.lab or "lab.yaml", find_obeyed=find_obeyed
    )
    return _print_checks(arguments, chain(found, _look_at_lab(arguments, domain) if arguments.lab else ()))


def _look_at_robot(arguments: argparse.Namespace, domain: int) -> Iterator[SystemCheck]:
    from opc_ros.bringup.checks import require_ros
    from opc_ros.bringup.lab import load_arm, load_lab

    name = arguments.lab or "lab.yaml"
    arm, lab = load_arm(name, arguments.robot), load_lab(name)
    require_ros()
    from opc_ros.ros.robot_checkup import check_robot

    own = lab.arm_domains(domain)[arguments.robot]
    return check_robot(arguments.robot, arm, arm_domain=own, lab_domain=domain, wait_s=max(arguments.wait, 2.0))


def _look_at_lab(arguments: argparse.Namespace, domain: int) -> Iterator[SystemCheck]:
    from opc_ros.bringup.checks import require_ros
    from opc_ros.bringup.lab import load_lab

    lab = load_lab(arguments.lab)
    require_ros()
    from opc_ros.ros.lab_checkup import check_lab

    domains = lab.arm_domains(domain)
    return check_lab(list(lab.robots), lab_domain=domain, arm_domains=domains, wait_s=max(arguments.wait, 4.0))


def _print_checks(arguments: argparse.Namespace, found: Iterable[SystemCheck]) -> int:
    import dataclasses
    import json

    checks = []
    for check in found:
        checks.append(check)
        if not arguments.json:
            remedy = f"; to do: {check.remedy}" if check.remedy else ""
            print(f"{check.status:<9}{check.name:<12} {check.detail}{remedy}", flush=True)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(check) for check in checks], indent=2))
    return int(any(check.status == "missing" for check in checks))


def _show_policy(arguments: argparse.Namespace) -> int:
    import dataclasses
    import json

    from opc_ros.policies.registry import CandidateRegistry
    from opc_ros.policies.trial_thought import think_once

    candidate = CandidateRegistry(arguments.candidates).find(arguments.policy)
    thought = think_once(candidate, allow_code=arguments.allow_code)
    manifest = candidate.manifest
    if arguments.json:
        found = {
            "id": candidate.id,
            "name": candidate.name,
            "task": manifest.task,
            "action_search": dataclasses.asdict(manifest.action_search),
            "think_s": manifest.think_s,
            "thought_s": thought.median_s,
            "is_in_time": thought.is_in_time,
        }
        print(json.dumps(found, indent=2))
    else:
        print(f"id        {candidate.id}")
        print(f"name      {candidate.name}, {manifest.architecture or manifest.format}, task {manifest.task}")
        print(f"search    {manifest.action_search.describe()}")
        print(f"deadline  {manifest.think_s:g} s for each action")
        print(f"here      {thought.describe()}")
    return 0 if thought.is_in_time else 1
