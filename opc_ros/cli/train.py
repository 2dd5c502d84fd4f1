"""`opc train`: train Q functions or cloned policies from a snapshot; checkpoints become candidates."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.argument_types import whole_number

if TYPE_CHECKING:
    from opc_ros.progress import Report
    from opc_ros.store import Snapshot, Store
    from sim_bridge.training.cloning import ClonedCheckpoint
    from sim_bridge.training.recipe import TrainingRecipe
    from sim_bridge.training.replay import Replay
    from sim_bridge.training.run import TrainingCheckpoint

    Checkpoint = TrainingCheckpoint | ClonedCheckpoint

EXAMPLES = """examples:
  opc train --store data/train --set name=first --set steps=400 --set 'checkpoints=[100, 200]'
  opc train sim_bridge/zoo/recipes.yaml --store data/train --out candidates
  opc train sim_bridge/zoo/recipes.yaml --only careful --set seed=7 --store data/train
  opc train --clone --set name=cloned-100 --set episodes=100 --set steps=600
  opc train --keys

A recipe is YAML; --keys lists its keys with defaults and meanings. An interrupted run resumes
from its last checkpoint. Every checkpoint is a whole candidate folder: `opc score --candidates OUT`
takes it as it is."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "train",
        help="train candidate Q functions from recorded episodes",
        description="Train Q functions off-policy from a store's episodes, or clone its successes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipes", nargs="?", type=Path, help="YAML file of recipes (default: one with all defaults)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only the recipe of this name; may be repeated")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help="change a key of every recipe"
    )
    parser.add_argument("--store", type=Path, default=Path("store"), help="where the episodes are (default: ./store)")
    parser.add_argument("--snapshot", default="", help="digest or tag (default: take one now)")
    parser.add_argument(
        "--out", type=Path, default=Path("candidates"), help="folder of the candidates (default: ./candidates)"
    )
    parser.add_argument(
        "--clone",
        action="store_true",
        help="learn policies without Q that do what successes did; keys that only Q learning uses are ignored",
    )
    parser.add_argument("--threads", type=whole_number(1), help="cores to use (default: all)")
    parser.add_argument("--keys", action="store_true", help="list the keys of a recipe and stop")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from sim_bridge.training.recipe import describe_keys

    if arguments.keys:
        lines = describe_keys()
        print(json.dumps(lines) if arguments.json else "\n".join(lines))
        return 0
    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.policies.compute import limit_threads_here
    from opc_ros.store import open_store
    from sim_bridge.training.memory import keep_freed_memory

    keep_freed_memory()
    if arguments.threads:
        limit_threads_here(arguments.threads)
    recipes = _find_recipes(arguments)
    trained: list[Checkpoint] = []
    with open_store(arguments.store) as store:
        data = _Data(store, store.snapshot(arguments.snapshot) if arguments.snapshot else store.take_snapshot())
        _refuse_unfit_data(recipes, data.snapshot)
        for recipe in recipes:
            with progress_bar(recipe.name, is_shown=not arguments.json) as report:
                checkpoints = (_clone if arguments.clone else _train)(recipe, data, arguments.out, report)
            trained += checkpoints
            if not arguments.json:
                print("\n".join(_describe(checkpoint, arguments.out) for checkpoint in checkpoints), flush=True)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(checkpoint) for checkpoint in trained]))
    return 0


def _find_recipes(arguments: argparse.Namespace) -> list[TrainingRecipe]:
    from opc_ros.errors import ConfigError
    from sim_bridge.training.recipe import load_recipes, make_recipe

    if arguments.recipes is None:
        return [make_recipe({}, arguments.changes)]
    recipes = load_recipes(arguments.recipes, arguments.changes)
    if not arguments.only:
        return recipes
    names = [recipe.name for recipe in recipes]
    for name in arguments.only:
        if name not in names:
            raise ConfigError(f"{arguments.recipes}: no recipe {name!r}, expected one of {', '.join(names)}")
    return [recipe for recipe in recipes if recipe.name in arguments.only]


def _refuse_unfit_data(recipes: list[TrainingRecipe], snapshot: Snapshot) -> None:
    """Check before training, so that the last of many recipes does not fail after hours on something known before."""
    from opc_ros.errors import TrainingError
    from sim_bridge.training.replay import check_outcomes

    for recipe in recipes:
        chosen = recipe.choose_episodes([entry.episode_id for entry in snapshot.entries])
        try:
            check_outcomes(len(chosen), sum(snapshot.entries[i].is_success for i in chosen))
        except TrainingError as error:
            raise TrainingError(f"recipe {recipe.name}: snapshot {snapshot.id[:12]}: {error}") from error


class _Data:
    """A snapshot's episodes, decoded for one recipe and kept, because the next recipe often uses the same."""

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._store = store
        self._key: tuple[int, list[int]] | None = None
        self._replay: Replay | None = None

    def replay_for(self, recipe: TrainingRecipe, report: Report) -> Replay:
        from sim_bridge.training.replay import load_replay

        entries = self.snapshot.entries
        chosen = recipe.choose_episodes([entry.episode_id for entry in entries])
        if self._replay is None or self._key != (recipe.image_size, chosen):
            episodes = (self._store.read_entry(entries[index]) for index in chosen)
            self._replay = None  # free the old one first
            self._replay = load_replay(episodes, image_size=recipe.image_size, count=len(chosen), report=report)
            self._key = (recipe.image_size, chosen)
        return self._replay


def _train(recipe: TrainingRecipe, data: _Data, out: Path, report: Report) -> tuple[TrainingCheckpoint, ...]:
    from sim_bridge.training.run import DataOrigin, TrainingRun

    replay = data.replay_for(recipe, report)
    out.mkdir(parents=True, exist_ok=True)
    return TrainingRun(recipe, replay, out, origin=DataOrigin(data.snapshot.id, _git_revision())).train(report)


def _clone(recipe: TrainingRecipe, data: _Data, out: Path, report: Report) -> tuple[ClonedCheckpoint, ...]:
    from sim_bridge.training.cloning import clone_policy
    from sim_bridge.training.run import DataOrigin

    replay = data.replay_for(recipe, report)
    out.mkdir(parents=True, exist_ok=True)
    return clone_policy(recipe, replay, out, origin=DataOrigin(data.snapshot.id, _git_revision()), report=report)


def _git_revision() -> str:
    """Revision of the training code; empty outside a git clone."""
    import subprocess

    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.stdout.strip()


def _describe(checkpoint: Checkpoint, out: Path) -> str:
    from sim_bridge.training.run import TrainingCheckpoint

    if isinstance(checkpoint, TrainingCheckpoint):
        held_out = f"held-out SoftOPC {checkpoint.soft_opc:+.4f}"
    else:
        held_out = f"held-out loss {checkpoint.held_out_loss:.4f}"
    return f"{out / checkpoint.folder}: loss {checkpoint.loss:.4f}, {held_out} (id {checkpoint.candidate_id[:12]})"
