"""With MLflow's own file store; skipped if the extra is not installed."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pytest

from opc_ros.errors import SetupError
from opc_ros.reporting.report import build_report
from opc_ros.workflows.mlflow_sink import log_to_mlflow
from opc_ros.workflows.scoring_run import ScoringRun
from tests.ranking.making import make_scored, rank

STAMP = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC).isoformat()


def make_run(folder: Path, candidates: int) -> ScoringRun:
    scored, known = make_scored(candidates, episodes=60)
    ranking = rank(scored)
    report = build_report(scored, ranking, known=known, made_at=STAMP, version="0", seed=0)
    files = [folder / name for name in ("report.html", "report.json", "ranking.json")]
    for file in files:
        file.write_text("x")
    return ScoringRun(scored, ranking, report, folder)


def test_scores_snapshot_and_champion_reach_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    run = make_run(tmp_path, 3)
    log_to_mlflow(run, uri)
    log_to_mlflow(run, uri)
    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment = client.get_experiment_by_name("opc_ros")
    logged = client.search_runs([experiment.experiment_id])
    assert len(logged) == 6
    assert {entry.data.tags["opc.snapshot"] for entry in logged} == {run.ranking.snapshot_id}
    best = run.ranking.candidates[0]
    scores = [e.data.metrics["soft_opc"] for e in logged if e.data.tags["opc.candidate_id"] == best.candidate_id]
    assert scores == pytest.approx([best.score] * 2)
    champion = client.get_model_version_by_alias("opc-policy", "champion")
    assert champion.tags["opc.candidate_id"] == best.candidate_id
    assert len(client.search_model_versions("name = 'opc-policy'")) == 3


def test_without_mlflow_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(SetupError, match=r"install opc-ros\[mlflow\]"):
        log_to_mlflow(make_run(tmp_path, 1), "file:///nowhere")
