"""The paper's binary tree: random Q functions, their true success, and how well each score predicts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from opc_ros.errors import ConstantScores, ScoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking import fit_line, spearman
from opc_ros.scoring import Reweighter, final_rewards, opc_over_priors, score_baselines

Magnitude = Literal["one", "k", "thousand"]  # Q ~ U[0, 1], the k-th from U[0, k], U[0, 1000]

METRICS = ("td_error", "sum_of_advantages", "mcc_error", "opc", "soft_opc")
PRIORS = tuple(round(0.05 * step, 2) for step in range(21))

# Range of the mean Spearman correlation over 20 or more seeds on the deterministic tree, with 5 or 6 decisions.
SPEARMAN_BANDS = {
    "td_error": (-0.19, -0.06),
    "sum_of_advantages": (-0.05, 0.05),
    "mcc_error": (-0.33, -0.17),
    "opc": (0.48, 0.58),
    "soft_opc": (0.52, 0.60),
}


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """One variant of the experiment; the defaults are the paper's."""

    decisions: int = 5  # from root to leaf; a tree of 6 levels
    functions: int = 1000
    episodes: int = 1000
    slip: float = 0.0  # how often the environment acts at random instead
    magnitude: Magnitude = "one"
    is_mostly_success: bool = False  # all leaves but one succeed, instead of only one

    def __post_init__(self) -> None:
        for name, least in (("decisions", 1), ("functions", 3), ("episodes", 1)):
            if getattr(self, name) < least:
                raise ScoreError(f"tree: {name} is {getattr(self, name)}, expected at least {least}")
        if not 0.0 <= self.slip <= 1.0:
            raise ScoreError(f"tree: slip is {self.slip}, expected a probability from 0 to 1")

    @property
    def inner_nodes(self) -> int:
        """Nodes are numbered like a heap: 1 is the root, 2n and 2n + 1 the children of n, leaves come last."""
        return int(2**self.decisions - 1)

    def leaf_rewards(self) -> np.ndarray:
        """Reward of each leaf, (2^D,)."""
        rewards = np.full(2**self.decisions, float(self.is_mostly_success))
        rewards[0] = 1.0 - rewards[0]
        return rewards


@dataclass(frozen=True, slots=True)
class TreeVariant:
    """A row of the paper's results; published figures are (R^2, Spearman) for each metric that the paper gives."""

    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # applied to the settings
    is_swept: bool = False  # over all priors
    published: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def _publish(*figures: tuple[float, float]) -> dict[str, tuple[float, float]]:
    return dict(zip(METRICS, figures, strict=True))


VARIANTS = (
    TreeVariant(
        "one success leaf",
        is_swept=True,
        published=_publish((0.02, -0.15), (0.00, 0.00), (0.06, -0.26), (0.21, 0.50), (0.19, 0.51)),
    ),
    TreeVariant(
        "stochastic 0.4",
        {"slip": 0.4},
        published=_publish((0.01, -0.07), (0.00, 0.01), (0.07, -0.27), (0.13, 0.38), (0.14, 0.39)),
    ),
    TreeVariant(
        "stochastic 0.6",
        {"slip": 0.6},
        published=_publish((0.00, -0.05), (0.01, -0.07), (0.01, -0.06), (0.01, 0.08), (0.03, 0.18)),
    ),
    TreeVariant(
        "stochastic 0.8",
        {"slip": 0.8},
        published=_publish((0.00, -0.05), (0.00, -0.02), (0.01, -0.11), (0.03, 0.19), (0.04, 0.20)),
    ),
    TreeVariant("Q ~ U[0, k]", {"magnitude": "k"}, is_swept=True),
    TreeVariant("Q ~ U[0, 1000]", {"magnitude": "thousand"}, is_swept=True),
    TreeVariant("one failure leaf", {"is_mostly_success": True}, is_swept=True),
)


@dataclass(frozen=True, slots=True)
class TreeEpisodes:
    """Episodes of the random policy; actions are the intended ones, whatever the environment did."""

    node: np.ndarray  # (N,), from 1
    action: np.ndarray  # (N,), 0 left or 1 right
    lengths: np.ndarray  # (E,)
    success: np.ndarray  # (E,)


@dataclass(frozen=True, slots=True)
class TreeRun:
    """How one seed's scores agree with true success; NaN where a score is the same for every function."""

    scores: dict[str, np.ndarray]  # metric -> (K,) or (K, P)
    success: np.ndarray  # (K,), exact
    r_squared: dict[str, np.ndarray]  # metric -> (1,) or (P,)
    spearman: dict[str, np.ndarray]


def sample_q(settings: TreeSettings, rng: np.random.Generator) -> np.ndarray:
    """Random Q tables, (K, inner nodes, 2)."""
    q = rng.random((settings.functions, settings.inner_nodes, 2))
    if settings.magnitude == "k":
        return q * np.arange(1, settings.functions + 1)[:, None, None]
    return q * 1000 if settings.magnitude == "thousand" else q


def measure_success(q: np.ndarray, settings: TreeSettings) -> np.ndarray:
    """Exact success of each greedy policy from a uniformly drawn inner node, (K,)."""
    values = np.empty((q.shape[0], 2 * settings.inner_nodes + 2))
    values[:, settings.inner_nodes + 1 :] = settings.leaf_rewards()
    is_right = q[:, :, 1] > q[:, :, 0]
    for level in reversed(range(settings.decisions)):
        nodes = np.arange(2**level, 2 ** (level + 1))
        left, right = values[:, 2 * nodes], values[:, 2 * nodes + 1]
        chosen = np.where(is_right[:, nodes - 1], right, left)
        values[:, nodes] = (1 - settings.slip) * chosen + settings.slip * (left + right) / 2
    return np.asarray(values[:, 1 : settings.inner_nodes + 1].mean(axis=1))


def collect_episodes(settings: TreeSettings, rng: np.random.Generator) -> TreeEpisodes:
    """Episodes of the uniformly random policy from uniformly drawn inner nodes."""
    shape = (settings.episodes, settings.decisions)
    actions = rng.integers(2, size=shape)
    is_slip = rng.random(shape) < settings.slip
    executed = np.where(is_slip, rng.integers(2, size=shape), actions)
    nodes = np.zeros(shape, dtype=np.int64)
    now = rng.integers(1, settings.inner_nodes + 1, size=settings.episodes)
    for step in range(settings.decisions):
        is_inner = now <= settings.inner_nodes
        nodes[is_inner, step] = now[is_inner]
        now = np.where(is_inner, 2 * now + executed[:, step], now)
    is_taken = nodes > 0
    success = settings.leaf_rewards()[now - settings.inner_nodes - 1] > 0
    return TreeEpisodes(nodes[is_taken], actions[is_taken], is_taken.sum(axis=1), success)


def score_functions(q: np.ndarray, episodes: TreeEpisodes, priors: Sequence[float] = (1.0,)) -> dict[str, np.ndarray]:
    """Scores of Q tables (K, inner nodes, 2): (K,) for each baseline, (K, P) for OPC and SoftOPC."""
    lengths, success = episodes.lengths, episodes.success
    recorded = q[:, episodes.node - 1, episodes.action]  # (K, N)
    greedy = q.max(axis=2).T[episodes.node - 1]  # (N, K)
    baselines = score_baselines(np.ascontiguousarray(recorded.T), greedy, lengths, final_rewards(lengths, success))
    soft = Reweighter(list(recorded), lengths, success, metric="soft_opc").score(np.ones((1, lengths.size)))[0]
    mean = recorded @ np.repeat(1 / (lengths * lengths.size), lengths)
    return {
        "td_error": baselines.td_error,
        "sum_of_advantages": baselines.sum_of_advantages,
        "mcc_error": baselines.mcc_error,
        "opc": np.array([opc_over_priors(values, lengths, success, priors) for values in recorded]),
        # SoftOPC is the prior times the mean over successes, minus the mean over all.
        "soft_opc": np.outer(soft + mean, priors) - mean[:, None],
    }


def run_seed(settings: TreeSettings, seed: int, priors: Sequence[float] = (1.0,)) -> TreeRun:
    """The experiment once."""
    rng = np.random.default_rng(seed)
    q = sample_q(settings, rng)
    episodes = collect_episodes(settings, rng)
    success = measure_success(q, settings)
    scores = score_functions(q, episodes, priors)
    return TreeRun(
        scores=scores,
        success=success,
        r_squared={metric: _for_each_prior(values, success, _r_squared) for metric, values in scores.items()},
        spearman={metric: _for_each_prior(values, success, spearman) for metric, values in scores.items()},
    )


def _r_squared(scores: np.ndarray, success: np.ndarray) -> float:
    return fit_line(scores, success).r_squared


def _for_each_prior(
    scores: np.ndarray, success: np.ndarray, agree: Callable[[np.ndarray, np.ndarray], float]
) -> np.ndarray:
    """One figure for each column of scores, (P,)."""
    figures = []
    for column in scores.reshape(success.size, -1).T:
        try:
            figures.append(agree(column, success))
        except ConstantScores:
            figures.append(np.nan)
    return np.array(figures)


@dataclass(frozen=True, slots=True)
class TreeResult:
    """One variant over several seeds; each figure has a value for each seed and prior, (S, P)."""

    variant: TreeVariant
    priors: tuple[float, ...]
    r_squared: dict[str, np.ndarray]
    spearman: dict[str, np.ndarray]
    first: TreeRun  # of the first seed


def run_variant(
    variant: TreeVariant, base: TreeSettings, seeds: Sequence[int], report: Report = ignore_progress
) -> TreeResult:
    """One variant on a tree of this size, for each seed."""
    if not seeds:
        raise ScoreError("tree: no seed, expected at least 1")
    settings = replace(base, **variant.changes)
    priors = PRIORS if variant.is_swept else (1.0,)
    runs = []
    for done, seed in enumerate(seeds, start=1):
        runs.append(run_seed(settings, seed, priors))
        report(done, len(seeds), variant.label)
    return TreeResult(
        variant=variant,
        priors=priors,
        r_squared={metric: np.stack([run.r_squared[metric] for run in runs]) for metric in METRICS},
        spearman={metric: np.stack([run.spearman[metric] for run in runs]) for metric in METRICS},
        first=runs[0],
    )


def run_tree(base: TreeSettings, seeds: Sequence[int], report: Report = ignore_progress) -> tuple[TreeResult, ...]:
    """Every variant of the paper on a tree of this size."""
    results: list[TreeResult] = []

    def report_all(done: int, total: int, note: str = "") -> None:
        report(len(results) * total + done, len(VARIANTS) * total, note)

    for variant in VARIANTS:
        results.append(run_variant(variant, base, seeds, report_all))  # noqa: PERF401 report_all counts them
    return tuple(results)
