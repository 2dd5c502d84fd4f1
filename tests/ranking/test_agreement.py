import numpy as np
import pytest
from scipy import stats

from opc_ros import errors
from opc_ros.ranking import (
    fit_line,
    kendall,
    mean_maximum_rank_violation,
    measure_agreement,
    regret_at_k,
    safety_errors,
    spearman,
)

SCORES = [0.1, 0.2, 0.4, 0.3]
SUCCESS = [10.0, 30.0, 60.0, 70.0]


def test_line_of_four_points_worked_by_hand() -> None:
    # Means .25 and 42.5; Sxx = .05, Sxy = 9.5, Syy = 2275.
    line = fit_line(SCORES, SUCCESS)
    assert line.slope == pytest.approx(9.5 / 0.05)
    assert line.intercept == pytest.approx(42.5 - 190 * 0.25)
    assert line.r_squared == pytest.approx(9.5**2 / (0.05 * 2275))
    assert line.predict([0.5]) == pytest.approx([90.0])


def test_line_and_band_equal_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(30)
    y = 3 * x + rng.normal(size=30)
    line, theirs = fit_line(x, y), stats.linregress(x, y)
    assert (line.slope, line.intercept) == pytest.approx((theirs.slope, theirs.intercept))
    assert line.r_squared == pytest.approx(theirs.rvalue**2)
    # At score 0 the line is its intercept, so the band there is the intercept's interval.
    low, high = line.band([0.0])
    half = stats.t.ppf(0.975, 28) * theirs.intercept_stderr
    assert (low[0], high[0]) == pytest.approx((theirs.intercept - half, theirs.intercept + half))


def test_rank_correlations_worked_by_hand() -> None:
    # One of six pairs is in the wrong order; squared rank differences add up to 2.
    assert spearman(SCORES, SUCCESS) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert kendall(SCORES, SUCCESS) == pytest.approx((5 - 1) / 6)


def test_spearman_equals_scipy_with_ties() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, y = rng.integers(0, 5, (2, 12))
        if np.ptp(x) and np.ptp(y):
            assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_regret_is_what_the_best_chosen_lacks_to_the_best() -> None:
    assert regret_at_k(SCORES, SUCCESS, 1) == pytest.approx(10)
    assert regret_at_k(SCORES, SUCCESS, 2) == 0
    assert regret_at_k([-s for s in SCORES], SUCCESS, 1) == pytest.approx(60)


def test_regret_does_not_credit_ties() -> None:
    assert regret_at_k([0.5, 0.5, 0.1], [20, 90, 10], 1) == 70
    assert regret_at_k([0.5, 0.5, 0.1], [90, 20, 10], 1) == 70
    assert regret_at_k([0.5, 0.5, 0.1], [20, 90, 10], 2) == 0


def test_rank_violation_worked_by_hand() -> None:
    # Only the last two are misordered, 10 points apart: (0 + 0 + 10 + 10) / 4.
    assert mean_maximum_rank_violation(SCORES, SUCCESS) == pytest.approx(5)
    assert mean_maximum_rank_violation([1, 2, 3, 4], SUCCESS) == 0
    # Reversed, each is misordered with the one furthest from it: 60, 40, 50 and 60.
    assert mean_maximum_rank_violation([4, 3, 2, 1], SUCCESS) == pytest.approx((60 + 40 + 50 + 60) / 4)


def test_safety_errors_worked_by_hand() -> None:
    errors_at_50 = safety_errors([40, 60, 70, 30], [60, 40, 70, 20], 50)
    assert errors_at_50.safe_refused == pytest.approx(1 / 2)
    assert errors_at_50.unsafe_admitted == pytest.approx(1 / 2)
    assert safety_errors([1, 2], [1, 2], 5).safe_refused is None
    assert safety_errors([1, 2], [1, 2], 0).unsafe_admitted is None


def test_agreement_holds_all_figures() -> None:
    agreement = measure_agreement(SCORES, SUCCESS, top_k=(1, 3, 9), safe_success=60)
    assert agreement.spearman == pytest.approx(0.8)
    assert agreement.regret == ((1, pytest.approx(10)), (3, 0))
    assert agreement.mmrv == pytest.approx(5)
    # The line -5 + 190 x expects 14, 33, 71 and 52: the last, truly 70, would be refused.
    assert agreement.safety is not None
    assert (agreement.safety.safe_refused, agreement.safety.unsafe_admitted) == (0.5, 0.0)
    assert measure_agreement(SCORES, SUCCESS).safety is None


def test_agreement_refuses_what_it_cannot_use() -> None:
    with pytest.raises(errors.ConstantScores, match="all 3 scores are 0"):
        spearman([0, 0, 0], [1, 2, 3])
    with pytest.raises(errors.ConstantScores, match="all 3 true success values are 2"):
        measure_agreement([1, 2, 3], [2, 2, 2])
    with pytest.raises(errors.LengthMismatch, match="2 or more candidates"):
        kendall([1], [1])
    with pytest.raises(errors.LengthMismatch, match=r"shape \(2,\), true success \(3,\)"):
        spearman([1, 2], [1, 2, 3])
    with pytest.raises(errors.ScoreError, match="true success of candidate 1 is nan"):
        spearman([1, 2], [1, np.nan])
    with pytest.raises(errors.ScoreError, match="at least 3"):
        fit_line([1, 2], [1, 2])
    with pytest.raises(errors.ScoreError, match="k is 5, expected 1 to 4"):
        regret_at_k(SCORES, SUCCESS, 5)
