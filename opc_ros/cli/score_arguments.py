"""Where rankings are and whose key signs them: arguments of every verb that makes or publishes one."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_scores(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scores", type=Path, default=Path("scores"), help="folder of rankings (default: ./scores)")
    parser.add_argument(
        "--keys",
        type=Path,
        default=Path("deployment/keys"),
        help="with the scorer's key, which signs what is published (default: ./deployment/keys)",
    )
