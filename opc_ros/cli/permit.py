"""`opc permit`: an operator's permit for a behaviour policy or teleoperation to move one arm."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

EXAMPLES = """examples:
  opc people add ada --key ~/.ssh/id_ed25519.pub --role operator     # once: who may sign permits
  opc keys export deployment/keys robots/arm1/keys                   # and on which robots
  opc permit --robot arm1 --policy blind_grasps --episodes 200
  opc permit --robot arm1 --policy teleoperation --episodes 20 --hours 2 --key ada
  opc up hardware robots:=arm1 mode:=collect                         # records under the permit in robots/arm1

policies: blind_grasps, teleoperation, or service:NAME for one of your own behind the ROS service NAME"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "permit",
        help="sign a permit for a behaviour policy or a person to move an arm and record",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--key", type=Path, help="private key to sign with; default: $OPC_KEY, ssh agent, ~/.ssh")
    parser.add_argument("--person", default="", help="sign as this person, if you have keys of several people")
    parser.add_argument("--state", type=Path, default=Path("deployment"), help="the deployment's folder, with its keys")
    parser.add_argument("--robot", required=True)
    parser.add_argument("--policy", required=True, help="behaviour policy that may play")
    parser.add_argument("--episodes", type=int, required=True, metavar="N", help="how many episodes may begin")
    parser.add_argument(
        "--speed", type=float, default=0.3, help="fraction of the arm's full speed, at most 0.5 (default: 0.3)"
    )
    parser.add_argument("--hours", type=float, default=12.0, help="until it expires (default: 12)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: robots/ROBOT/behaviour.permit")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Sign the permit, and put it where the robot looks for it."""
    from opc_ros.deployment.behaviour_permit import FILE_NAME, issue_behaviour_permit, write_signed
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.signing import find_signer
    from opc_ros.durable import make_folder

    signs = find_signer(DeploymentFolder(arguments.state).keys, arguments.key, arguments.person)
    signed = issue_behaviour_permit(
        signs.signer,
        person=signs.person,
        robot=arguments.robot,
        policy=arguments.policy,
        episodes=arguments.episodes,
        speed=arguments.speed,
        now_ns=time.time_ns(),
        hours=arguments.hours,
    )
    path = arguments.out or Path("robots") / arguments.robot / FILE_NAME
    make_folder(path.resolve().parent)
    write_signed(path, signed)
    content = json.loads(signed.payload)["content"]
    if arguments.json:
        print(json.dumps({"path": str(path), **content}))
    else:
        print(
            f"{path}: {signs.person} allows {arguments.policy} {arguments.episodes} episodes on {arguments.robot} "
            f"at {arguments.speed:.0%} of its speed, for {arguments.hours:g} hours"
        )
    return 0
