"""All metrics: each module of this package that defines METRIC is one, and is found automatically."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import ScoreError
from opc_ros.scoring.metric import Answers, Metric, RankingMetric


@cache
def all_metrics() -> dict[str, Metric]:
    """Every metric by name: first those that can rank, then those that are only reported."""
    found: list[Metric] = [
        importlib.import_module(f"{__name__}.{module.name}").METRIC for module in pkgutil.iter_modules(__path__)
    ]
    found.sort(key=lambda metric: (not isinstance(metric, RankingMetric), metric.name))
    return {metric.name: metric for metric in found}


@cache
def ranking_metric_names() -> tuple[str, ...]:
    """Names of the metrics that can order candidates."""
    return tuple(name for name, metric in all_metrics().items() if isinstance(metric, RankingMetric))


def find_metric(name: str) -> Metric:
    """The metric of this name."""
    metric = all_metrics().get(name)
    if metric is None:
        raise ScoreError(f"metric is {name!r}, expected one of {', '.join(all_metrics())}")
    return metric


def find_ranking_metric(name: str) -> RankingMetric:
    """The metric of this name, which must be able to order candidates."""
    metric = all_metrics().get(name)
    if not isinstance(metric, RankingMetric):
        raise ScoreError(f"metric is {name!r}, expected one of {', '.join(ranking_metric_names())}")
    return metric


def score_without(metric: str, answers: Answers, own: np.ndarray, *, prior: float) -> float:
    """The score of this name where episodes marked in `own`, (E,) bool, do not count."""
    if not own.any():
        return find_metric(metric).score(answers, prior=prior)
    rows = np.repeat(~own, np.asarray(answers.lengths))
    greedy = None if answers.q_greedy is None else np.asarray(answers.q_greedy)[rows]
    counted = Answers(
        np.asarray(answers.q)[rows], np.asarray(answers.lengths)[~own], np.asarray(answers.success)[~own], greedy
    )
    return find_metric(metric).score(counted, prior=prior)


def compute_metric(metric: str, q: ArrayLike, lengths: ArrayLike, success: ArrayLike, *, prior: float = 1.0) -> float:
    """The score of this name from Q at recorded actions alone; the arrays are those of `opc`."""
    return find_ranking_metric(metric).score(Answers(q, lengths, success), prior=prior)
