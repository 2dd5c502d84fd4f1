"""`opc ranking`: list rankings, compare two, and publish the one that the gate reads."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from opc_ros.cli.score_arguments import add_scores

if TYPE_CHECKING:
    from opc_ros.ranking.comparison import Move
    from opc_ros.ranking.ranking import RankedCandidate

EXAMPLES = """examples:
  opc ranking list
  opc ranking show newest
  opc ranking diff published newest
  opc ranking publish 3f2a91

Every `opc score` and `opc rank` keeps its ranking under an id. The gate reads only the published one."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "ranking",
        help="list and compare rankings, and publish one for the gate",
        description="List past rankings, and choose the one the gate reads.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    listing = _add_task(tasks, "list", "all rankings, newest first", _list)
    listing.add_argument("--publications", action="store_true", help="only what the gate has read, and since when")
    show = _add_task(tasks, "show", "one ranking", _show)
    show.add_argument("ranking", metavar="RANKING", help="beginning of an id, newest or published")
    diff = _add_task(tasks, "diff", "what changed from one ranking to another", _diff)
    diff.add_argument("before", metavar="BEFORE", help="beginning of an id, newest or published")
    diff.add_argument("after", metavar="AFTER", help="the same")
    publish = _add_task(tasks, "publish", "publish this ranking for the gate", _publish)
    publish.add_argument("ranking", metavar="RANKING", help="beginning of an id, or newest")


def _add_task(tasks: Any, name: str, what: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = tasks.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    add_scores(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    from opc_ros.cli.table import format_table
    from opc_ros.workflows.ranking_archive import RankingArchive

    archive = RankingArchive(arguments.scores)
    if arguments.publications:
        entries = archive.publications()
        rows = [(entry.ranking_id[:12], entry.published_at) for entry in entries]
        shown = [dataclasses.asdict(entry) for entry in entries]
        print(json.dumps(shown) if arguments.json else format_table(("ranking", "read by the gate since"), rows))
        return 0
    summaries, published = archive.summaries(), archive.published_id()
    if arguments.json:
        marks = [{"is_published": bool(published) and each.ranking_id.startswith(published)} for each in summaries]
        print(json.dumps([dataclasses.asdict(each) | mark for each, mark in zip(summaries, marks, strict=True)]))
        return 0
    lines = [
        (
            each.ranking_id[:12],
            each.made_at,
            "published" if published and each.ranking_id.startswith(published) else "",
            each.metric,
            f"{each.successes}/{each.episodes}",
            f"{each.candidates}{' selected' if each.scope == 'selection' else ''}",
            each.best,
        )
        for each in summaries
    ]
    print(format_table(("ranking", "made", "", "metric", "successes", "candidates", "first"), lines))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from opc_ros.cli.table import format_table
    from opc_ros.workflows.ranking_archive import RankingArchive

    archive = RankingArchive(arguments.scores)
    ranking = archive.read(arguments.ranking)
    if arguments.json:
        print(ranking.to_json())
        return 0
    print(
        f"ranking {ranking.ranking_id}\n{ranking.metric}, prior {ranking.prior:g}, snapshot {ranking.snapshot_id[:12]}"
    )
    print(f"{ranking.episodes} episodes, {ranking.successes} successes; Q values {ranking.q_digest[:12]}")
    rows = [(c.rank, c.name, c.score, _span(c), c.candidate_id[:12]) for c in ranking.candidates]
    print(format_table(("#", "candidate", "score", "rank", "id"), rows))
    for left_out in ranking.left_out:
        print(f"left out: {left_out.name}: {left_out.reason}")
    print(f"report: {archive.folder_of(ranking.ranking_id) / 'report.html'}")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    from opc_ros.cli.table import format_table
    from opc_ros.ranking.comparison import compare_rankings
    from opc_ros.workflows.ranking_archive import RankingArchive

    archive = RankingArchive(arguments.scores)
    found = compare_rankings(archive.read(arguments.before), archive.read(arguments.after))
    if arguments.json:
        print(json.dumps(dataclasses.asdict(found)))
        return 0
    for difference in found.differences:
        print(difference)
    if found.spearman is not None:
        print(f"rank correlation over candidates in both: {found.spearman:.2f}")
    rows = [(move.name, _place(move.before), _place(move.after), _describe(move)) for move in found.moves]
    print(format_table(("candidate", found.before_id[:12], found.after_id[:12], "change"), rows))
    return 0


def _publish(arguments: argparse.Namespace) -> int:
    import datetime
    import time

    from opc_ros.deployment.signed_ranking import ranking_signer
    from opc_ros.workflows.ranking_archive import RankingArchive

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    ranking = RankingArchive(arguments.scores).publish(
        arguments.ranking, now=now, sign=ranking_signer(arguments.keys, time.time_ns)
    )
    document = {"ranking_id": ranking.ranking_id, "published_at": now}
    text = f"published: the gate reads ranking {ranking.ranking_id[:12]} from now on"
    print(json.dumps(document) if arguments.json else text)
    return 0


def _place(candidate: RankedCandidate | None) -> str:
    return "-" if candidate is None else f"{candidate.rank} ({candidate.score:.4f})"


def _span(candidate: RankedCandidate) -> str:
    first, last = candidate.rank_interval
    return f"{first} to {last}"


def _describe(move: Move) -> str:
    if move.before is None or move.after is None:
        return "new" if move.before is None else "gone"
    steps = move.before.rank - move.after.rank
    word = "same" if not steps else f"{'up' if steps > 0 else 'down'} {abs(steps)}"
    return word + (", beyond doubt" if steps and move.is_beyond_doubt else "")
