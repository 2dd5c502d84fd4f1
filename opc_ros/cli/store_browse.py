"""`opc store list`, `show` and `stats`: what is in a store."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli.store_arguments import Verbs, add_selection, add_verb, format_moment, open_existing, read_selection

if TYPE_CHECKING:
    from opc_ros.errors import StoreError
    from opc_ros.store import CommittedEpisode, LabelCounts, Store

LIST_EXAMPLES = """examples:
  opc store list
  opc store list --unlabelled --robot arm1
  opc store list --quarantine
  opc store list --json | jq -r '.[] | select(.health != []) | .id'"""

SHOW_EXAMPLES = """examples:
  opc store show arm1-000123
  opc store show arm1-000123 --image sheet.png"""

STATS_EXAMPLES = """examples:
  opc store stats
  opc store stats --since 2026-11-01 --json"""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    listing = add_verb(verbs, "list", help="list episodes, oldest first", examples=LIST_EXAMPLES)
    listing.add_argument("--unlabelled", action="store_true", help="only those waiting for a label")
    listing.add_argument("--limit", type=int, metavar="N", help="only the newest N")
    listing.add_argument("--skip", type=int, default=0, metavar="N", help="with --limit: leave out the newest N")
    listing.add_argument("--quarantine", action="store_true", help="what is in quarantine, and why")
    add_selection(listing)
    listing.set_defaults(run=run_list)

    show = add_verb(verbs, "show", help="show one episode, as text and as an image", examples=SHOW_EXAMPLES)
    show.add_argument("episode")
    show.add_argument("--image", type=Path, metavar="FILE", help="write its frames, actions and label, e.g. sheet.png")
    show.set_defaults(run=run_show)

    stats = add_verb(verbs, "stats", help="count episodes and successes by robot and policy", examples=STATS_EXAMPLES)
    add_selection(stats)
    stats.set_defaults(run=run_stats)


def run_list(arguments: argparse.Namespace) -> int:
    store = open_existing(arguments)
    if arguments.quarantine:
        return _list_quarantine(store, is_json=arguments.json)
    damaged: list[StoreError] = []
    selection = read_selection(arguments)
    if arguments.unlabelled:
        selection = dataclasses.replace(selection, outcomes=("unlabelled",))
    if arguments.limit is not None:
        damaged += store.damage()
        episodes = store.page(selection, first=arguments.skip, count=arguments.limit)
    else:
        episodes = list(store.episodes(selection, on_damage=damaged.append))
    episodes.sort(key=lambda episode: (episode.began_ns, episode.id))
    if arguments.json:
        print(json.dumps([to_json(episode) for episode in episodes], indent=2))
    else:
        width = max([len(episode.id) for episode in episodes], default=2)
        for episode in episodes:
            print(_list_line(episode, width))
    return _report_damage(damaged)


def run_show(arguments: argparse.Namespace) -> int:
    from opc_ros.store.exclusion import describe_revision, label_history

    store = open_existing(arguments)
    committed = store.find(arguments.episode)
    episode = store.read(arguments.episode)
    if arguments.image is not None:
        from opc_ros.errors import StoreError
        from opc_ros.store.contact_sheet import draw_contact_sheet

        try:
            draw_contact_sheet(committed, episode, arguments.image)
        except (OSError, ValueError) as error:
            raise StoreError(f"{arguments.image}: cannot be written: {error}") from error
    if arguments.json:
        print(json.dumps({**to_json(committed), "actions": episode.actions().tolist()}, indent=2))
        return 0
    for name, value in to_json(committed).items():
        print(f"{name:<18}{', '.join(value) if isinstance(value, list) else value}")
    for revision in label_history(store, arguments.episode):
        print(f"revision {revision.revision:<9}{describe_revision(revision)}")
    for index, (step, action) in enumerate(zip(episode.steps, episode.actions(), strict=True)):
        clamped = "  clamped" if step.is_clamped else ""
        numbers = " ".join(f"{number:+.3f}" for number in action)
        print(f"step {index:<3} {(step.frame.stamp_ns - episode.started_ns) / 1e9:7.3f} s  {numbers}{clamped}")
    if arguments.image is not None:
        print(f"image           {arguments.image}")
    return 0


def run_stats(arguments: argparse.Namespace) -> int:
    from opc_ros.store.quota import warnings

    store = open_existing(arguments)
    for line in warnings(store):
        print(f"opc: {line}", file=sys.stderr)
    stats = store.statistics(read_selection(arguments))
    damaged: list[StoreError] = [*store.damage()]
    groups = {
        "robot": stats.by_robot,
        "policy": stats.by_policy,
        "object set": stats.by_object_set,
        "label source": stats.by_label_source,
    }
    if arguments.json:
        document: dict[str, Any] = {"total": _tally_json(stats.total), "damaged": len(damaged)}
        document |= {
            f"by_{name.replace(' ', '_')}": {key: _tally_json(tally) for key, tally in group.items()}
            for name, group in groups.items()
        }
        print(json.dumps(document, indent=2))
        return _report_damage(damaged)
    columns = (
        "episodes",
        "success",
        "failure",
        "unlabelled",
        "excluded",
        "rate",
        "balance",
        "steps",
        "MB",
        "unhealthy",
    )
    print(f"{'':<34}" + "".join(f"{name:>11}" for name in columns))
    print(_tally_line("all", stats.total))
    for name, group in groups.items():
        for key, tally in group.items():
            print(_tally_line(f"{name} {key if len(key) <= 20 else key[:12] + '…'}" if key else f"no {name}", tally))
    return _report_damage(damaged)


def to_json(episode: CommittedEpisode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "robot": episode.robot,
        "began": format_moment(episode.began_ns) + " UTC",
        "began_ns": episode.began_ns,
        "duration_s": episode.duration_ns / 1e9,
        "steps": episode.steps,
        "label": episode.label.outcome,
        "label_source": episode.label.source.value,
        "labeller": episode.label.labeller,
        "label_revision": episode.label_revision,
        "behaviour_policy": episode.behaviour_policy,
        "object_set": episode.object_set,
        "permit_id": episode.permit_id,
        "file_sha256": episode.file_sha256,
        "file_bytes": episode.file_bytes,
        "health": list(episode.health),
    }


def _list_line(episode: CommittedEpisode, width: int) -> str:
    entry = to_json(episode)
    policy = episode.behaviour_policy if len(episode.behaviour_policy) <= 20 else episode.behaviour_policy[:12] + "…"
    health = f"  ! {'; '.join(episode.health)}" if episode.health else ""
    return (
        f"{episode.id:<{width}}  {format_moment(episode.began_ns)}  {episode.robot:<12} {episode.steps:>3} steps  "
        f"{entry['label']:<10} {entry['label_source']:<13} {policy:<20} {episode.object_set}{health}"
    )


def _list_quarantine(store: Store, *, is_json: bool) -> int:
    entries, errors = store.quarantined()
    if is_json:
        print(json.dumps([dataclasses.asdict(entry) for entry in entries], indent=2))
    else:
        for entry in entries:
            print(f"{entry.episode_id}  {entry.robot}  {entry.steps} steps  {entry.reason}")
    return _report_damage(errors)


def _report_damage(damaged: list[StoreError]) -> int:
    for error in damaged:
        print(f"opc: {error}", file=sys.stderr)
    return int(bool(damaged))


def _tally_line(name: str, tally: LabelCounts) -> str:
    values = (
        tally.episodes,
        tally.successes,
        tally.failures,
        tally.unlabelled,
        tally.excluded,
        "-" if tally.success_rate is None else f"{tally.success_rate:.3f}",
        "-" if tally.balance is None else f"{tally.balance:.3f}",
        tally.steps,
        f"{tally.file_bytes / 1e6:.1f}",
        tally.unhealthy,
    )
    return f"{name:<34}" + "".join(f"{value:>11}" for value in values)


def _tally_json(tally: LabelCounts) -> dict[str, Any]:
    return {**dataclasses.asdict(tally), "success_rate": tally.success_rate, "balance": tally.balance}
