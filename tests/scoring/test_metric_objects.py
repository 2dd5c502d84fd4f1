import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opc_ros.cli.main import build_parser
from opc_ros.errors import ScoreError
from opc_ros.ranking import rank_candidates
from opc_ros.scoring import (
    Answers,
    Reweighter,
    all_metrics,
    compute_metric,
    find_metric,
    find_ranking_metric,
    metrics,
    ranking_metric_names,
)

Q = np.array([0.9, 0.7, 0.2, 0.4])
LENGTHS = np.array([2, 1, 1])
SUCCESS = np.array([True, False, False])

LEAST_Q_OF_SUCCESSES = '''"""Least Q on a success: what a strict lab might ask."""
from opc_ros.scoring.metrics.soft_opc import SoftOpc
import numpy as np
class Least(SoftOpc):
    def score(self, answers, *, prior):
        return float(answers.q[np.repeat(answers.success, answers.lengths)].min())
METRIC = Least(name="least_q", title="Least Q on successes")
'''


@pytest.fixture
def one_more_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "least_q.py").write_text(LEAST_Q_OF_SUCCESSES)
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    for looked_up in (all_metrics, ranking_metric_names):
        looked_up.cache_clear()
    yield
    for looked_up in (all_metrics, ranking_metric_names):
        looked_up.cache_clear()


def test_a_metric_is_named_after_its_file_and_describes_itself() -> None:
    for name, metric in all_metrics().items():
        assert importlib.import_module(f"opc_ros.scoring.metrics.{name}").METRIC is metric
        assert metric.title
        low, high = metric.bounds
        score = metric.score(Answers(Q, LENGTHS, SUCCESS, q_greedy=Q + 0.1), prior=1.0)
        assert low <= score <= high
    assert set(ranking_metric_names()) == {
        *("opc", "soft_opc", "soft_opc_by_transition", "soft_opc_over_spread"),
        *("soft_opc_on_ranks", "opc_by_episode", "weighted_auc", "episode_auc", "auc_by_step"),
        *("agreement", "critic"),
    }
    assert [find_metric(name).direction for name in ("opc", "td_error")] == ["higher is better", "lower is better"]


@pytest.mark.usefixtures("one_more_file")
def test_a_new_metric_is_one_file_and_can_rank_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert compute_metric("least_q", Q, LENGTHS, SUCCESS) == 0.7
    assert "least_q" in ranking_metric_names()
    assert build_parser().parse_args(["score", "--metric", "least_q"]).metric == "least_q"
    ranking = rank_candidates(
        {"a": Q, "b": Q + 0.1},
        {"a": "first", "b": "second"},
        LENGTHS,
        SUCCESS,
        metric="least_q",
        resamples=10,
        seed=0,
        snapshot_id="5" * 64,
    )
    assert [candidate.candidate_id for candidate in ranking.candidates] == ["b", "a"]
    with pytest.raises(SystemExit):
        build_parser().parse_args(["score", "--metric", "leastq"])
    assert "least_q" in capsys.readouterr().err


def test_what_cannot_order_is_refused_by_name() -> None:
    with pytest.raises(ScoreError, match=r"metric is 'td_error', expected one of .*opc, .*soft_opc"):
        find_ranking_metric("td_error")
    with pytest.raises(ScoreError, match=r"metric is 'softopc', expected one of .*td_error"):
        find_metric("softopc")
    with pytest.raises(ScoreError, match="needs Q at the policy's own actions: score with baselines"):
        find_metric("td_error").score(Answers(Q, LENGTHS, SUCCESS), prior=1.0)
    with pytest.raises(ScoreError, match="metric is 'mcc_error'"):
        Reweighter([Q], LENGTHS, SUCCESS, metric="mcc_error")
