"""`opc security`: SROS2 policies for our nodes."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """examples:
  opc security policy > policy.xml
  opc security policy --lab my_lab.yaml --out policy.xml
  OPC_NAMESPACE=lab_a opc security policy   # of a lab that was started with namespace:=lab_a
  ros2 security generate_artifacts -k keystore -p policy.xml

The policy has one enclave for each process, such as /arm1/policy_runner. SROS2 needs a native ROS 2: the DDS that comes
with `make setup` has no security plugins."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "security",
        help="write SROS2 policies for a lab",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    policy = actions.add_parser(
        "policy",
        help="write the SROS2 policy: who may publish, subscribe, offer and call what",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    policy.add_argument("--lab", default="lab.yaml", help="lab file: a path, or a file of config/ (default: lab.yaml)")
    policy.add_argument("--out", type=Path, help="file to write (default: standard output)")
    policy.set_defaults(run=run_policy)


def run_policy(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.graph import lab_graph
    from opc_ros.bringup.lab import load_arm, load_lab
    from opc_ros.bringup.lab_names import read_namespace
    from opc_ros.bringup.security_policy import write_policy
    from opc_ros.durable import replace_file
    from opc_ros.errors import SetupError

    arms = {robot: load_arm(arguments.lab, robot) for robot in load_lab(arguments.lab).robots}
    text = write_policy(lab_graph(arms, read_namespace()))
    if arguments.out is None:
        print(text, end="")
        return 0
    try:
        replace_file(arguments.out, text.encode())
    except OSError as error:
        raise SetupError(f"{arguments.out}: {error.strerror or error}") from error
    print(f"{arguments.out}: policies for {', '.join(arms)}")
    return 0
