"""Settings of the scorer node, one field for each parameter."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.config import described
from opc_ros.scoring.metrics import ranking_metric_names


@dataclass(frozen=True, slots=True)
class ScorerSettings:
    """Where episodes and candidates are, where reports go, and how to rank."""

    store: str = described("store", "folder of the validation store")
    candidates: str = described("candidates", "folder of the candidate registry")
    scores: str = described("scores", "folder of rankings, their reports and the Q cache")
    keys: str = described("", "folder with the scorer's own key, which signs what is published; empty: none")
    publish: bool = described(True, "let the gate read rankings of the whole registry")
    metric: str = described("soft_opc_over_spread", "metric that ranks by default")
    prior: float = described(1.0, "p(y = 1), unless a goal names another", low=0, high=1)
    top_k: int = described(3, "how many count as the best", low=1)
    confidence: float = described(0.95, "of intervals", low=0.5, high=0.9999)
    resamples: int = described(2000, "of the bootstrap", low=1)
    seed: int = described(0, "of the bootstrap", low=0)
    rescore_s: float = described(0.0, "how often to look for new episodes and candidates; 0: never", low=0)
    allow_code: bool = described(False, "load candidates in formats that can run code of their own")
    workers: int = described(0, "threads that evaluate; 0: one for each core", low=0)

    def __post_init__(self) -> None:
        if self.metric not in ranking_metric_names():
            raise ValueError(f"metric is {self.metric!r}, expected one of {', '.join(ranking_metric_names())}")
