"""`opc demo`: the main job from end to end on this machine, as the commands a person would type."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

EXAMPLES = """examples:
  opc demo
  opc demo --episodes 20 --more 400 --folder /tmp/opc-demo

What it shows is what happened: nothing is prepared but the candidates, which were trained on other objects in another
world. The pseudo-real world stands for hardware where there is none. Ctrl-C stops it at any point and leaves no
process."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="run the main job from end to end on this machine",
        description="Record on two pseudo-real arms over ROS 2, score the shipped candidates on it, and ask the gate.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where its runs go (default: ./demo)")
    parser.add_argument("--episodes", type=int, default=8, help="recorded over ROS, on two arms (default 8)")
    parser.add_argument("--more", type=int, default=80, help="played in process, so that a score says something")
    parser.add_argument("--candidates", type=Path, help="folders of candidates are in here (default: the shipped zoo)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import os
    import time

    from opc_ros.bringup.supervisor import heed_signals

    candidates = (arguments.candidates or _zoo()).resolve()
    folder = (arguments.folder / time.strftime("run-%Y%m%d-%H%M%S")).absolute()
    folder.mkdir(parents=True)
    os.chdir(folder)
    heed_signals()
    for act in (_record, _score, _ask_the_gate):
        code = act(arguments, candidates)
        if code != 0:
            return code
    print(f"\nEverything is in {folder}. The report: {folder / 'scores' / 'latest' / 'report.html'}")
    print(f"Next, after `cd {folder}`:")
    print("  opc store show $(ls store/episodes/arm1 | head -1 | sed s/.json//) --picture sheet.png")
    print("  opc score --metric opc --baselines --out scores/baselines")
    print("  opc deploy simulate --runs 200")
    return 0


def _record(arguments: argparse.Namespace, candidates: Path) -> int:
    _head("1. Two pseudo-real arms behind KUKA topics, each with a recorder: real ROS 2 processes over DDS")
    world = ["--store", "store", "--world", "pseudo_real", "--policy", "better", "--image-size", "96"]
    ros = ["--through-ros", "--robot", "arm1,arm2", "--real-time-factor", "3"]
    code = _type(["collect", "--episodes", str(arguments.episodes), *ros, *world])
    if code == 0 and arguments.more:
        code = _type(["collect", "--episodes", str(arguments.more), *world])
    return code or _type(["store", "stats"]) or _type(["store", "snapshot", "--tag", "demo"])


def _score(arguments: argparse.Namespace, candidates: Path) -> int:
    _head("2. Candidates trained in simulation, scored on that snapshot")
    folders = sorted(str(path.parent) for path in candidates.glob("*/candidate.yaml"))
    code = _type(["candidate", "add", *folders], shown=f"candidate add {candidates}/*")
    return code or _type(["score", "--snapshot", "demo"])


def _ask_the_gate(arguments: argparse.Namespace, candidates: Path) -> int:
    """The best, the worst, and the best with one byte changed after it was scored."""
    import shutil

    from opc_ros.ranking import Ranking

    _head("3. The gate: the best, the worst, and the best after somebody touched its file")
    ranked = Ranking.from_json(Path("scores/latest/ranking.json").read_text()).candidates
    best = next(Path("candidates").glob(f"*{ranked[0].candidate_id[:12]}"))
    tampered = Path("tampered")
    shutil.copytree(best, tampered)
    weights = next(path for path in tampered.iterdir() if path.name != "candidate.yaml")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    for candidate in (ranked[0].name, ranked[-1].name, str(tampered)):
        code = _type(["gate", "explain", candidate, "--gate", "gate_demo.yaml"])
        if code not in (0, 1):
            return code
    return 0


def _type(words: list[str], shown: str = "") -> int:
    """Run one opc command here, showing it as it would be typed."""
    from opc_ros.cli.main import main

    _say(f"$ opc {shown or shlex.join(words)}", style="2")
    return main(words)


def _zoo() -> Path:
    import sim_bridge

    return Path(sim_bridge.__file__).parent / "zoo" / "candidates"


def _head(text: str) -> None:
    _say(f"\n{text}", style="1")


def _say(text: str, *, style: str) -> None:
    import sys

    print(f"\033[{style}m{text}\033[0m" if sys.stdout.isatty() else text, flush=True)
