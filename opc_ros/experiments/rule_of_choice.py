"""Applies decision 14's rule to saved figures: which challengers fail at which step, and which is judged at the end.

python -m opc_ros.experiments.rule_of_choice train.json test.json pseudo_real.json tree.json pong.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.agreement_intervals import agree
from opc_ros.experiments.score_variants import BASE
from opc_ros.ranking import regret_at_k

BY_Q_ALONE = ("soft_opc_on_ranks", "episode_auc", "weighted_auc", "auc_by_step", "opc_by_episode")
WITH_GREEDY = (
    "over spread and greedy_distance",
    "over spread and peer_distance",
    "over spread and greedy_gap",
    "over spread and critic",
    "cross-fitted",
)
CHALLENGERS = (*BY_Q_ALONE, *WITH_GREEDY)
_SLACK = 0.02  # of Spearman
_MOST_WORSE = 0.2  # of the cases in which one training run is left out
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class KeptWorld:
    """One development world's candidates, from the file that `score_choice --json` writes."""

    world: str
    success: np.ndarray  # (C,)
    runs: tuple[frozenset[str], ...]
    scores: Mapping[str, np.ndarray]  # (C,) each

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> KeptWorld:
        return cls(
            world=document["world"],
            success=np.array(document["success"]),
            runs=tuple(frozenset(run) for run in document["runs"]),
            scores={name: np.array(values) for name, values in document["scores"].items()},
        )

    def spearman(self, name: str) -> float:
        return agree(self.scores[name], self.success)[1]

    def regret(self, name: str, k: int, without: str | None = None) -> float:
        """Regret@k in points; `without` leaves out a training run and the averages that have a member from it."""
        kept = np.array([without not in run for run in self.runs])
        return 100 * regret_at_k(self.scores[name][kept], self.success[kept], k)


@dataclass(frozen=True, slots=True)
class ChallengerVerdict:
    """What the rule says of one challenger."""

    name: str
    dropped: str  # the step it fails at and why; empty if it remains
    worse_without_a_run: float  # share of runs without which its mean regret@1 over the worlds is above the default's
    mean_regret: float  # of regret@1 and regret@3 over the worlds
    mean_spearman: float


def apply_rule(
    worlds: Sequence[KeptWorld], levels: Mapping[str, Mapping[str, float]]
) -> tuple[list[ChallengerVerdict], str]:
    """A verdict on every challenger, and the name of the one to be judged; empty if none remains.

    Args:
        worlds: the development worlds.
        levels: Spearman of each score that needs no greedy action, on the tree and at each stickiness of Pong.
    """
    if not worlds:
        raise ScoreError("no file of a development world was given, expected one or more")
    verdicts = [_judge(name, worlds, levels) for name in CHALLENGERS if all(name in one.scores for one in worlds)]
    left = [verdict for verdict in verdicts if not verdict.dropped]
    best = min(left, key=lambda one: (round(one.mean_regret, 9), -one.mean_spearman), default=None)
    return verdicts, best.name if best else ""


def _judge(name: str, worlds: Sequence[KeptWorld], levels: Mapping[str, Mapping[str, float]]) -> ChallengerVerdict:
    lost = [(one.world, one.spearman(BASE) - one.spearman(name)) for one in worlds]
    lost += [(level, found[BASE] - found[name]) for level, found in levels.items() if name in found]
    below = [f"{where} {by:.3f}" for where, by in lost if by > _SLACK + _ROUNDING]
    runs = sorted(frozenset().union(*(run for one in worlds for run in one.runs)))
    worse = float(np.mean([_mean_regret_1(name, worlds, run) > _mean_regret_1(BASE, worlds, run) for run in runs]))
    dropped = ""
    if below:
        dropped = f"step 1: ξ lower by {', '.join(below)}"
    elif worse > _MOST_WORSE:
        dropped = f"step 2: regret@1 is larger without {worse:.0%} of the runs"
    regrets = [one.regret(name, k) for one in worlds for k in (1, 3)]
    return ChallengerVerdict(
        name, dropped, worse, float(np.mean(regrets)), float(np.mean([one.spearman(name) for one in worlds]))
    )


def _mean_regret_1(name: str, worlds: Sequence[KeptWorld], without: str) -> float:
    return float(np.mean([round(one.regret(name, 1, without), 9) for one in worlds]))


def to_markdown(verdicts: Sequence[ChallengerVerdict], best: str) -> str:
    """One row for each challenger."""
    lines = ["| challenger | worse without a run | mean regret@1, @3 | mean ξ | |", "|---|---|---|---|---|"]
    for one in verdicts:
        said = one.dropped or ("**the challenger**" if one.name == best else "left")
        lines.append(
            f"| {one.name} | {one.worse_without_a_run:.0%} | {one.mean_regret:.2f} | {one.mean_spearman:.3f} | {said} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the rule's verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else "", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="written by score_choice --json or pong.challengers --json")
    arguments = parser.parse_args(argv)
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.files]
    worlds = [KeptWorld.of(document) for document in documents if "world" in document]
    levels = {where: found for document in documents for where, found in document.get("levels", {}).items()}
    verdicts, best = apply_rule(worlds, levels)
    print(f"worlds: {', '.join(one.world for one in worlds)}; elsewhere: {', '.join(levels) or 'nothing'}\n")
    print(to_markdown(verdicts, best))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
