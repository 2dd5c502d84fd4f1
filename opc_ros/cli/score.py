"""`opc score`: compute what the Q cache lacks, rank, and write the report."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.argument_types import number, whole_number
from opc_ros.cli.score_arguments import add_scores

if TYPE_CHECKING:
    from opc_ros.progress import Report
    from opc_ros.scoring.engines import Engine
    from opc_ros.workflows.scoring_run import ScoringRun


class _MetricNames:
    """Names of the metrics, looked up when argparse checks or prints them, so that `opc --help` need not load numpy."""

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)

    def __iter__(self) -> Iterator[str]:
        from opc_ros.scoring.metrics import ranking_metric_names

        return iter(ranking_metric_names())


EXAMPLES = """examples:
  opc score
  opc score --store /data/store --snapshot week-46 --candidates ./candidates --no-publish
  opc score randomised-40k rcan-20k --metric opc --baselines
  opc score --engine ray --ray-address auto

Q values are kept in the Q cache (SCORES/q.sqlite unless --q-cache says otherwise), so a later run
computes only what is new, and an interrupted one resumes. Each ranking is kept with its report in
SCORES/<id>; SCORES/newest is the last one made. A ranking of the whole registry is published: the
gate reads it from then on, unless --no-publish is given, or its metric or prior differ from the published one's.
Exit code 1 if a candidate or an episode had to be left out."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "score",
        help="score candidates on a snapshot of the validation store",
        description="Score candidates on recorded episodes, rank them and write a report.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_ranking_arguments(parser)
    parser.add_argument("--no-publish", action="store_true", help="do not publish the ranking for the gate")
    work = parser.add_argument_group("how to compute")
    work.add_argument("--engine", choices=("local", "ray"), default="local", help="where to compute (default: local)")
    work.add_argument(
        "--workers", type=whole_number(1), help="threads of the local engine (default: one for each core)"
    )
    work.add_argument("--ray-address", metavar="ADDRESS", help="the Ray cluster; default: Ray's own rules")
    work.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="bfloat16: compute networks of named architectures less exactly; refused where that changes the order "
        "on a part of the set, and never published (default: float32)",
    )
    work.add_argument("--allow-code", action="store_true", help="load formats that can run code of their own")
    parser.set_defaults(run=run)


def add_ranking_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `opc score` and `opc rank` share."""
    parser.add_argument("candidates_given", nargs="*", metavar="CANDIDATE", help="name, folder or id (default: all)")
    parser.add_argument("--store", type=Path, default=Path("store"), help="validation store (default: ./store)")
    parser.add_argument("--snapshot", default="", help="digest or tag (default: take one now)")
    parser.add_argument(
        "--candidates", type=Path, default=Path("candidates"), help="registry folder (default: ./candidates)"
    )
    add_scores(parser)
    parser.add_argument("--q-cache", type=Path, help="file of Q values (default: SCORES/q.sqlite)")
    parser.add_argument(
        "--metric",
        choices=_MetricNames(),
        metavar="METRIC",
        default="soft_opc_over_spread",
        help="score to rank by: %(choices)s (default: soft_opc_over_spread)",
    )
    parser.add_argument(
        "--prior", type=number(0, 1), default=1.0, help="p(y = 1), the share of feasible actions (default: 1)"
    )
    parser.add_argument("--top-k", type=whole_number(1), default=3, help="how many count as the best (default: 3)")
    parser.add_argument(
        "--confidence", type=number(0.5, 0.9999), default=0.95, help="confidence level of intervals (default: 0.95)"
    )
    parser.add_argument(
        "--resamples", type=whole_number(1), default=2000, help="resamples of the bootstrap (default: 2000)"
    )
    parser.add_argument("--seed", type=whole_number(0), default=0, help="seed of the bootstrap (default: 0)")
    parser.add_argument("--baselines", action="store_true", help="also TD error, sum of advantages and MCC error")
    parser.add_argument("--known-success", type=Path, metavar="CSV", help="columns candidate, success, episodes")
    parser.add_argument("--gate", default="gate.yaml", help="gate rules to quote in the report (default: gate.yaml)")
    parser.add_argument("--mlflow", default="", metavar="URI", help="also log to MLflow: scores, snapshot, champion")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.errors import ScoreError
    from opc_ros.scoring.engines import LocalEngine

    engine: Engine
    is_coarse = arguments.precision == "bfloat16"
    if arguments.engine == "ray" and is_coarse:
        raise ScoreError("--precision bfloat16 with --engine ray: got both, expected the local engine with bfloat16")
    if arguments.engine == "ray":
        from opc_ros.scoring.ray_engine import RayEngine

        engine = RayEngine(address=arguments.ray_address, allow_code=arguments.allow_code)
    else:
        engine = LocalEngine(workers=arguments.workers, allow_code=arguments.allow_code, is_coarse=is_coarse)
    exact = LocalEngine(workers=arguments.workers, allow_code=arguments.allow_code) if is_coarse else None
    return run_with(engine, arguments, exact=exact, is_published=not arguments.no_publish)


def run_with(
    engine: Engine, arguments: argparse.Namespace, *, exact: Engine | None = None, is_published: bool = False
) -> int:
    """Score with this engine and print the results; returns 1 if something was left out."""
    from opc_ros.cli.progress_bar import progress_bar

    if arguments.mlflow:
        from opc_ros.workflows.mlflow_sink import check_mlflow

        check_mlflow(arguments.mlflow)
    with progress_bar("scoring", is_shown=not arguments.json) as report:
        result = _score(engine, exact, arguments, is_published, report)
    print(_to_json(result) if arguments.json else _to_table(result))
    if arguments.mlflow:
        from opc_ros.workflows.mlflow_sink import log_to_mlflow

        log_to_mlflow(result, arguments.mlflow)
    for candidate in result.ranking.left_out:
        advice = f"fix it or `opc candidate remove {candidate.candidate_id[:12] or candidate.name}`"
        print(f"opc: candidate {candidate.name} left out: {candidate.reason}; {advice}", file=sys.stderr)
    for failure in result.report.failed_episodes:
        print(f"opc: episode {failure.id} left out: {failure.reason}", file=sys.stderr)
    return 0 if result.is_complete else 1


def _find_rules(name: str) -> Path:
    from opc_ros.bringup.config_files import find_config

    return find_config(name)


def _score(
    engine: Engine, exact: Engine | None, arguments: argparse.Namespace, is_published: bool, report: Report
) -> ScoringRun:
    import datetime

    from opc_ros.workflows.scoring_run import RankingOptions
    from opc_ros.workflows.store_scoring import StoreScoring, score_store

    request = StoreScoring(
        store=arguments.store,
        registry=arguments.candidates,
        scores=arguments.scores,
        keys=arguments.keys,
        is_published=is_published,
        candidates=tuple(arguments.candidates_given),
        snapshot=arguments.snapshot,
        q_cache=arguments.q_cache,
        has_baselines=arguments.baselines,
        known_success=arguments.known_success,
        deployment=arguments.keys.parent,
        gate=_find_rules(arguments.gate),
        options=RankingOptions(
            metric=arguments.metric,
            prior=arguments.prior,
            top_k=arguments.top_k,
            confidence=arguments.confidence,
            resamples=arguments.resamples,
            seed=arguments.seed,
        ),
    )
    return score_store(
        request,
        engine,
        exact=exact,
        now=lambda: datetime.datetime.now(datetime.UTC),
        report_scoring=report,
        report_ranking=report,
    )


def _to_table(result: ScoringRun) -> str:
    ranking, scored = result.ranking, result.scored
    width = max(len(candidate.name) for candidate in ranking.candidates)
    lines = [
        f"{ranking.metric} on {ranking.episodes} episodes, {ranking.successes} successes "
        f"(snapshot {ranking.snapshot_id[:12]}); "
        f"{scored.pairs_evaluated} evaluated, {scored.pairs_cached} from the Q cache",
        f"{'#':>3}  {'candidate':<{width}}  {'score':>8}  {f'{ranking.confidence:.0%} interval':>18}  "
        f"{'rank':>8}  in top {ranking.top_k}",
    ]
    for candidate in ranking.candidates:
        low, high = candidate.score_interval
        first, last = candidate.rank_interval
        lines.append(
            f"{candidate.rank:>3}  {candidate.name:<{width}}  {candidate.unbiased:>8.4f}  "
            f"{f'{low:.4f} .. {high:.4f}':>18}  {f'{first}-{last}':>8}  {candidate.top_k_probability:>7.0%}"
        )
    lines.append(f"report: {result.page}")
    if result.is_published:
        lines.append(f"published: the gate reads ranking {ranking.ranking_id[:12]} from now on")
    elif result.why_not_published:
        lines.append(f"not published: {result.why_not_published}")
    return "\n".join(lines)


def _to_json(result: ScoringRun) -> str:
    report = result.report
    return json.dumps(
        {
            "ranking_id": result.ranking.ranking_id,
            "is_complete": result.is_complete,
            "is_published": result.is_published,
            "pairs_evaluated": result.scored.pairs_evaluated,
            "pairs_cached": result.scored.pairs_cached,
            "failed_candidates": [dataclasses.asdict(failure) for failure in report.failed_candidates],
            "failed_episodes": [dataclasses.asdict(failure) for failure in report.failed_episodes],
            "metrics": {candidate.candidate_id: candidate.metrics for candidate in report.candidates},
            "page": str(result.page),
            "report": str(result.document),
            "ranking": json.loads(result.ranking.to_json()),
        }
    )
