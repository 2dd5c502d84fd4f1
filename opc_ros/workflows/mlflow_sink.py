"""Logs scores to MLflow, for labs that use it."""

from __future__ import annotations

from typing import Any

from opc_ros.errors import SetupError
from opc_ros.ranking.ranking import RankedCandidate
from opc_ros.reporting.report import CandidateReport
from opc_ros.workflows.scoring_run import ScoringRun

EXPERIMENT = "opc_ros"
MODEL = "opc-policy"
CHAMPION = "champion"


def check_mlflow(tracking_uri: str) -> None:
    """Refuse an unreachable server now, rather than after hours of scoring."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise SetupError("MLflow is missing; install opc-ros[mlflow] or score without --mlflow") from error
    try:
        MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri).get_experiment_by_name(EXPERIMENT)
    except (MlflowException, OSError, ValueError) as error:
        raise SetupError(f"MLflow at {tracking_uri}: {' '.join(str(error).split())[:300]}") from error


def log_to_mlflow(run: ScoringRun, tracking_uri: str) -> None:
    """Log one MLflow run for each ranked candidate, the report in the best one's, and a champion alias for it.

    Each candidate is one version of the registered model `opc-policy`, recognised by its id.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise SetupError("MLflow is missing; install opc-ros[mlflow] or score without --mlflow") from error
    try:
        client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
        experiment = client.get_experiment_by_name(EXPERIMENT)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
        _ensure_model(client)
        versions = {}
        for ranked, candidate in zip(run.ranking.candidates, run.report.candidates, strict=True):
            run_id = _log_candidate(client, experiment_id, run, ranked, candidate)
            versions[ranked.rank] = _version_of(client, run, candidate, run_id)
            if ranked.rank == 1:
                client.log_artifact(run_id, str(run.page))
                client.log_artifact(run_id, str(run.ranking_file))
            client.set_terminated(run_id)
        client.set_registered_model_alias(MODEL, CHAMPION, versions[1])
    except MlflowException as error:
        raise SetupError(f"MLflow at {tracking_uri}: {' '.join(str(error).split())[:300]}") from error


def _log_candidate(
    client: Any, experiment_id: str, run: ScoringRun, ranked: RankedCandidate, candidate: CandidateReport
) -> str:
    tags = {
        "opc.candidate_id": candidate.candidate_id,
        "opc.snapshot": run.ranking.snapshot_id,
        "opc.ranking": run.ranking.ranking_id,
        "opc.metric": run.ranking.metric,
        "opc.family": candidate.family,
        "opc.training_run": candidate.training_run,
    }
    made: str = client.create_run(experiment_id, run_name=candidate.name, tags=tags).info.run_id
    low, high = ranked.score_interval
    figures = {
        **candidate.metrics,
        "score_low": low,
        "score_high": high,
        "rank": ranked.rank,
        "probability_in_top_k": ranked.top_k_probability,
    }
    for name, value in figures.items():
        client.log_metric(made, name, float(value), step=candidate.step or 0)
    return made


def _ensure_model(client: Any) -> None:
    if not client.search_registered_models(filter_string=f"name = '{MODEL}'"):
        client.create_registered_model(MODEL, description="Candidates scored by opc_ros; champion is ranked first.")


def _version_of(client: Any, run: ScoringRun, candidate: CandidateReport, run_id: str) -> str:
    known = client.search_model_versions(f"name = '{MODEL}'")
    for version in known:
        if version.tags.get("opc.candidate_id") == candidate.candidate_id:
            return str(version.version)
    folder = next(c.folder for c in run.scored.candidates if c.id == candidate.candidate_id)
    made = client.create_model_version(
        MODEL, str(folder.absolute()), run_id=run_id, tags={"opc.candidate_id": candidate.candidate_id}
    )
    return str(made.version)
