from collections.abc import Sequence

import numpy as np
import pytest

from opc_ros import errors
from opc_ros.scoring import (
    Reweighter,
    bootstrap_scores,
    compute_metric,
    draw_resamples,
    opc,
    ranking_metric_names,
    score_bias,
    score_intervals,
    soft_opc,
    split_scores,
)
from opc_ros.scoring import bootstrap as bootstrap_module
from opc_ros.scoring.metrics import opc as opc_module

METRICS = ranking_metric_names()


def make_set(
    rng: np.random.Generator, episodes: int, levels: int = 10_000
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Three candidates of increasing quality; few levels make many ties."""
    lengths = rng.integers(1, 9, episodes)
    success = rng.random(episodes) < 0.4
    success[:2], success[2:4] = True, False
    is_positive = np.repeat(success, lengths)
    q = [rng.integers(0, levels, lengths.sum()) + gap * levels * is_positive for gap in (0.0, 0.1, 0.5)]
    return q, lengths, success


def draw_in_order(success: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Resamples whose columns are the episodes in their order."""
    weights = np.empty((count, success.size))
    weights[:, np.argsort(~success, kind="stable")] = draw_resamples((success.sum(), (~success).sum()), count, rng)
    return weights


def repeat_episodes(q: np.ndarray, lengths: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chosen = np.repeat(np.arange(lengths.size), times.astype(int))
    starts = np.cumsum(lengths) - lengths
    return np.concatenate([q[starts[e] : starts[e] + lengths[e]] for e in chosen]), lengths[chosen], chosen


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("levels", [1, 2, 6, 10_000])
@pytest.mark.parametrize("prior", [1.0, 0.8, 0.4])
def test_weights_mean_what_repeating_episodes_means(metric: str, levels: int, prior: float) -> None:
    rng = np.random.default_rng(levels)
    for episodes in (4, 30, 150):
        q, lengths, success = make_set(rng, episodes, levels)
        weights = draw_in_order(success, 4, rng)
        scores = Reweighter(q, lengths, success, metric=metric, prior=prior).score(weights)
        for row, times in zip(scores, weights, strict=True):
            for score, values in zip(row, q, strict=True):
                repeated, repeated_lengths, chosen = repeat_episodes(values, lengths, times)
                expected = compute_metric(metric, repeated, repeated_lengths, success[chosen], prior=prior)
                assert score == pytest.approx(expected, abs=1e-12 * max(1, np.abs(values).max()))


@pytest.mark.parametrize("levels", [1, 2, 6, 40, 10_000])
@pytest.mark.parametrize("prior", [1.0, 0.8, 0.4])
def test_large_sets_are_scored_like_small_ones(levels: int, prior: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 in sets of up to 3,000 transitions, with groups of equal values shorter and longer than a block."""
    rng = np.random.default_rng(levels)
    for episodes, scale in ((4, 1.0), (150, 1.0), (600, 0.7)):
        q, lengths, success = make_set(rng, episodes, levels)
        weights = scale * draw_in_order(success, 70, rng)
        few = Reweighter(q, lengths, success, metric="opc", prior=prior).score(weights)
        with monkeypatch.context() as patch:
            patch.setattr(opc_module, "_MOST_WALKED", 0)
            many = Reweighter(q, lengths, success, metric="opc", prior=prior).score(weights)
        np.testing.assert_allclose(many, few, rtol=0, atol=1e-13)


@pytest.mark.parametrize("metric", METRICS)
def test_weights_of_one_give_the_plain_score(metric: str) -> None:
    q, lengths, success = make_set(np.random.default_rng(1), 200)
    scores = Reweighter(q, lengths, success, metric=metric).score(np.ones((1, 200)))
    assert scores[0] == pytest.approx([compute_metric(metric, values, lengths, success) for values in q], abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_only_the_proportion_of_weights_matters(metric: str) -> None:
    rng = np.random.default_rng(2)
    q, lengths, success = make_set(rng, 60)
    reweighter = Reweighter(q, lengths, success, metric=metric)
    weights = draw_in_order(success, 20, rng)
    assert reweighter.score(weights * 0.3) == pytest.approx(reweighter.score(weights), rel=1e-9, abs=1e-12)


def test_a_resample_has_as_many_episodes_and_both_outcomes() -> None:
    weights = draw_resamples((3, 7), 200, np.random.default_rng(0))
    assert (weights.sum(axis=1) == 10).all()
    successes = weights[:, :3].sum(axis=1)
    assert ((successes > 0) & (successes < 10)).all()
    assert np.ptp(successes) > 2  # how many succeed is random as well
    assert weights.mean(axis=0) == pytest.approx(np.ones(10), abs=0.25)


def test_the_same_seed_gives_the_same_scores_whatever_fits_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    q, lengths, success = make_set(np.random.default_rng(3), 50)
    for metric in METRICS:
        whole = bootstrap_scores(q, lengths, success, metric=metric, resamples=40, rng=np.random.default_rng(7))
        with monkeypatch.context() as patch:
            patch.setattr(bootstrap_module, "_WEIGHTS_AT_ONCE", 1)
            chunked = bootstrap_scores(q, lengths, success, metric=metric, resamples=40, rng=np.random.default_rng(7))
        assert whole.shape == (40, 3)
        assert chunked == pytest.approx(whole, rel=1e-9, abs=1e-9)
        other = bootstrap_scores(q, lengths, success, metric=metric, resamples=40, rng=np.random.default_rng(8))
        assert not np.array_equal(whole, other)


def test_poisson_weights_are_those_of_two_random_bytes() -> None:
    """65,536 / e is 24,109.3: as many draws of 0 as of 1, half as many of 2, a third of that of 3."""
    table = bootstrap_module._poisson_table()
    assert table.size == 65_536
    assert np.bincount(table.astype(int))[:4].tolist() == [24_109, 24_109, 12_055, 4018]
    assert table.mean() == pytest.approx(1, abs=1e-4)
    assert table.var() == pytest.approx(1, abs=3e-4)


@pytest.mark.parametrize("metric", ["opc", "soft_opc", "soft_opc_over_spread"])
def test_poisson_weights_spread_scores_as_resamples_do(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, lengths, success = make_set(np.random.default_rng(3), 600)

    def draw(seed: int) -> np.ndarray:
        return bootstrap_scores(q, lengths, success, metric=metric, resamples=1500, rng=np.random.default_rng(seed))

    usual = draw(1)
    monkeypatch.setattr(bootstrap_module, "_POISSON_FROM", 0)
    poisson = draw(2)
    # With 1500 draws a standard deviation is known to 1.8 %, a mean to 1/39 of it; five times that is allowed.
    np.testing.assert_allclose(poisson.std(axis=0), usual.std(axis=0), rtol=5 * 0.018 * np.sqrt(2))
    assert (np.abs(poisson.mean(axis=0) - usual.mean(axis=0)) < 5 * usual.std(axis=0) / 39 * np.sqrt(2)).all()
    np.testing.assert_array_equal(draw(2), poisson)
    monkeypatch.setattr(bootstrap_module, "_WEIGHTS_AT_ONCE", 1)
    np.testing.assert_allclose(draw(2), poisson, rtol=1e-9, atol=1e-12)


def test_a_poisson_resample_has_both_outcomes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_module, "_POISSON_FROM", 0)
    weights = draw_resamples((1, 3), 400, np.random.default_rng(0))
    assert (weights[:, 0] > 0).all()
    assert (weights[:, 1:].sum(axis=1) > 0).all()


def test_candidates_share_each_resample() -> None:
    q, lengths, success = make_set(np.random.default_rng(4), 50)
    scores = bootstrap_scores([q[2], q[2], 2 * q[2]], lengths, success, resamples=50, rng=np.random.default_rng(0))
    assert np.array_equal(scores[:, 0], scores[:, 1])
    assert np.array_equal(scores[:, 0], scores[:, 2])
    assert np.ptp(scores[:, 0]) > 0


def test_intervals_of_a_strong_candidate_cover_its_score() -> None:
    """Q a unit higher on successes: SoftOPC is .6. Resampled separately by outcome, such intervals cover about 75 %."""
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(100):
        success = rng.random(200) < 0.4
        q = rng.normal(0, 0.2, 200) + success
        score = np.array([q[success].mean() - q.mean()])
        samples = bootstrap_scores([q], np.ones(200, int), success, metric="soft_opc", resamples=300, rng=rng)
        low, high = score_intervals(score, samples, 0.95, "soft_opc")[0]
        covered += low <= 0.6 <= high
    assert 88 <= covered <= 99


def test_opc_of_a_candidate_that_knows_nothing_is_printed_near_zero_and_its_interval_holds_zero() -> None:
    """The best of many thresholds finds something in noise: .02 to .05 here; without its bias hardly anything."""
    rng = np.random.default_rng(8)
    raw, unbiased, held = [], [], 0
    for _ in range(60):
        success = rng.random(100) < 0.4
        q = rng.normal(size=400)
        lengths = np.full(100, 4)
        score = np.array([compute_metric("opc", q, lengths, success)])
        samples = bootstrap_scores([q], lengths, success, metric="opc", resamples=150, rng=rng)
        raw.append(score[0])
        unbiased.append(score[0] - score_bias(score, samples, "opc")[0])
        held += score_intervals(score, samples, 0.95, "opc", rarer=int(success.sum()))[0, 0] <= 0.0
    assert np.mean(raw) > 0.02
    assert np.mean(unbiased) < np.mean(raw) / 2
    assert held >= 53


def test_spread_of_soft_opc_is_the_one_theory_gives() -> None:
    rng = np.random.default_rng(5)
    success = np.arange(300) < 120
    means = rng.normal(size=300) + success
    scores = bootstrap_scores([means], np.ones(300, int), success, metric="soft_opc", resamples=4000, rng=rng)
    # SoftOPC = (1 - pi)(mean of successes - mean of failures); both means vary independently, and so does pi.
    variance = 0.6**2 * (means[success].var() / 120 + means[~success].var() / 180)
    variance += (means[success].mean() - means[~success].mean()) ** 2 * 0.4 * 0.6 / 300
    assert scores.std() == pytest.approx(np.sqrt(variance), rel=0.05)
    assert scores.mean() == pytest.approx(soft_opc(means, np.ones(300, int), success), abs=0.01)


def test_score_intervals_reflect_the_resamples_at_the_score() -> None:
    # 5 % of 0..100 lie below 5 and above 95; reflected at 40 they become -15 and 75.
    samples = np.column_stack([np.arange(101.0), np.arange(101.0), np.arange(101.0)])
    scores = np.array([40.0, 50.0, 0.0])
    assert score_intervals(scores, samples, 0.9, "soft_opc") == pytest.approx(np.array([[-15, 75], [5, 95], [-95, 0]]))
    shares = score_intervals(scores / 100, samples / 100, 0.9, "opc")
    assert shares == pytest.approx(np.array([[0, 0.75], [0.05, 0.95], [0, 0]]))


def test_the_interval_of_a_q_that_knows_nothing_reaches_down_to_zero() -> None:
    rng = np.random.default_rng(9)
    reached = 0
    for _ in range(40):
        success = np.arange(60) < 24
        q = np.repeat(rng.normal(size=60), 10) + rng.normal(size=600)
        lengths = np.full(60, 10)
        samples = bootstrap_scores([q], lengths, success, resamples=100, rng=rng)
        low, high = score_intervals(np.array([opc(q, lengths, success)]), samples, 0.95, "opc")[0]
        assert low <= opc(q, lengths, success) <= high
        reached += low < 0.005
    # Plain percentiles would contain it in fewer than half of these sets.
    assert reached >= 34


def test_halves_of_a_split_make_up_the_whole_set() -> None:
    rng = np.random.default_rng(6)
    success = np.arange(40) < 16
    q, lengths = rng.random(40), np.ones(40, int)
    halves = split_scores([q, -q], lengths, success, metric="soft_opc", splits=30, rng=rng)
    assert halves.shape == (30, 2, 2)
    # Halves of equal size: the mean of their means is the overall mean.
    assert halves.mean(axis=1)[:, 0] == pytest.approx(np.full(30, soft_opc(q, lengths, success)))
    assert len(np.unique(halves[:, 0, 0])) == 30


def test_split_halves_score_like_the_episodes_they_hold() -> None:
    rng = np.random.default_rng(8)
    lengths, success = np.full(4, 2), np.array([True, True, False, False])
    q = np.array([0.9, 0.8, 0.2, 0.3, 0.5, 0.1, 0.4, 0.6])
    possible = {
        frozenset(
            round(opc(q.reshape(4, 2)[[s, f]].ravel(), [2, 2], [True, False]), 9)
            for s, f in ((first, failure), (1 - first, 5 - failure))
        )
        for first in (0, 1)
        for failure in (2, 3)
    }
    for halves in split_scores([q], lengths, success, splits=20, rng=rng)[:, :, 0]:
        assert frozenset(np.round(halves, 9).tolist()) in possible


def test_uncertainty_refuses_what_it_cannot_use() -> None:
    rng = np.random.default_rng(0)
    q, lengths, success = [0.9, 0.1, 0.4], [1, 1, 1], [True, False, False]
    with pytest.raises(errors.ScoreError, match="resamples is 0"):
        bootstrap_scores([q], lengths, success, resamples=0, rng=rng)
    with pytest.raises(errors.NonFiniteQ, match="q of candidate 1 of episode 2, step 0 is nan"):
        bootstrap_scores([q, [1, 1, np.nan]], lengths, success, rng=rng)
    with pytest.raises(errors.LengthMismatch, match="q of candidate 1 has shape"):
        bootstrap_scores([q, q[:2]], lengths, success, rng=rng)
    with pytest.raises(errors.ScoreError, match=r"metric is 'auc', expected one of .*opc, .*soft_opc"):
        bootstrap_scores([q], lengths, success, metric="auc", rng=rng)  # type: ignore[arg-type]
    with pytest.raises(errors.ScoreError, match="no candidate"):
        bootstrap_scores([], lengths, success, rng=rng)
    with pytest.raises(errors.ScoreError, match="1 successes and 2 failures cannot be halved"):
        split_scores([q], lengths, success, rng=rng)
    with pytest.raises(errors.ScoreError, match="row 0 of weights leaves no success"):
        Reweighter([q], lengths, success).score(np.array([[0, 1, 1]]))
    with pytest.raises(errors.LengthMismatch, match=r"weights have shape \(1, 2\)"):
        Reweighter([q], lengths, success).score(np.ones((1, 2)))
    with pytest.raises(errors.ScoreError, match=r"confidence is 95"):
        score_intervals(np.zeros(1), np.zeros((3, 1)), 95, "opc")


class RowsWhenAsked(Sequence):  # type: ignore[type-arg]
    """Records which candidates' values were requested."""

    def __init__(self, rows: list[np.ndarray]) -> None:
        self._rows = rows
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]
        self.asked.append(index)
        return self._rows[index]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("has_own", [False, True])
def test_candidates_of_a_large_set_scored_in_turn_get_what_they_get_together(
    metric: str, has_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, lengths, success = make_set(np.random.default_rng(3), 60)
    own = np.zeros((3, 60), np.bool_)
    own[1, 10:20] = has_own
    drawn = [np.random.default_rng(5), np.random.default_rng(5)]
    together = bootstrap_scores(q, lengths, success, metric=metric, resamples=40, rng=drawn[0], own=own)
    monkeypatch.setattr(bootstrap_module, "_VALUES_AT_ONCE", int(lengths.sum()))
    rows = RowsWhenAsked(q)
    told: list[int] = []
    in_turn = bootstrap_scores(
        rows,
        lengths,
        success,
        metric=metric,
        resamples=40,
        rng=drawn[1],
        own=own,
        report=lambda done, total, note: told.append(done),
    )
    assert rows.asked == [0, 1, 2]
    assert told == sorted(told)
    assert told[-1] == 40
    assert drawn[0].bit_generator.state == drawn[1].bit_generator.state
    np.testing.assert_allclose(in_turn, together, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("at_once", [1, 2, 7])
def test_where_thresholds_may_lie_does_not_depend_on_how_many_groups_are_looked_at_together(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, lengths, success = make_set(np.random.default_rng(8), 40, levels=30)
    row = np.repeat(np.argsort(np.argsort(~success, kind="stable")), lengths).astype(np.int32)
    at_one_go = opc_module._sort_transitions(q[2], row, int(success.sum()))
    monkeypatch.setattr(opc_module, "_GROUPS_AT_ONCE", at_once)
    for found, expected in zip(opc_module._sort_transitions(q[2], row, int(success.sum())), at_one_go, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert at_one_go[1].sum() > 5


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("limit", ["_VALUES_AT_ONCE", "_WEIGHTS_AT_ONCE"])
def test_halves_of_a_large_set_scored_in_pieces_equal_those_scored_at_once(
    metric: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, lengths, success = make_set(np.random.default_rng(3), 60)
    drawn = [np.random.default_rng(5), np.random.default_rng(5)]
    at_one_go = split_scores(q, lengths, success, metric=metric, splits=9, rng=drawn[0])
    monkeypatch.setattr(bootstrap_module, limit, 4 * 60)
    in_pieces = split_scores(q, lengths, success, metric=metric, splits=9, rng=drawn[1])
    assert drawn[0].bit_generator.state == drawn[1].bit_generator.state
    np.testing.assert_allclose(in_pieces, at_one_go, rtol=1e-12, atol=1e-14)
