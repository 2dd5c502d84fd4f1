import numpy as np
import pytest
from scipy.stats import beta, t

from opc_ros.errors import LengthMismatch, ScoreError
from opc_ros.experiments.calibration import hide_in_synthetic_labs, leave_one_family_out
from opc_ros.experiments.zoo_tables import WORLDS, read_zoo_table
from opc_ros.ranking.forecast import Expected
from opc_ros.ranking.predicted_success import Field, predict_success
from opc_ros.ranking.success_model import (
    EDGES,
    LOGITS,
    RATES,
    SHAPES,
    Prior,
    chance_above,
    chance_better,
    chance_within,
    conditional,
    line_position,
    log_likelihood,
    marginal,
    spread_points,
    weigh_points,
)
from opc_ros.ranking.synthetic_labs import draw_rates


def lab_with_history(correlated: bool, seed: int = 0) -> tuple[Field, np.ndarray]:
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.1, 0.9, 40)
    scores = rates + rng.normal(0, 0.05, 40) if correlated else rng.normal(0, 1, 40)
    trials = np.where(np.arange(40) < 30, 60, 0)
    return Field.of(scores, rng.binomial(trials, rates), trials), rates


def test_with_many_episodes_the_results_speak_and_the_score_is_silent() -> None:
    field = Field.of([3.0, 0.0, 0.1, -0.1], [200, 1800, 500, 0], [2000, 2000, 1000, 0])
    predicted = predict_success(field)
    assert predicted.mean()[:3] == pytest.approx([0.1, 0.9, 0.5], abs=0.01)
    expected = beta.ppf([0.025, 0.975], 500, 500)
    assert predicted.interval()[2] == pytest.approx(expected, abs=0.015)


def test_a_history_that_follows_the_score_narrows_what_is_expected_of_untried_candidates() -> None:
    field, rates = lab_with_history(correlated=True)
    predicted = predict_success(field)
    assert predicted.slope[1] > 0.5
    assert np.corrcoef(predicted.mean()[30:], rates[30:])[0, 1] > 0.9
    assert np.mean(np.diff(predicted.interval()[30:], axis=1)) < 0.5


def test_a_score_that_says_nothing_is_not_believed() -> None:
    field, _ = lab_with_history(correlated=False)
    predicted = predict_success(field)
    low, high = predicted.slope[1:]
    assert low < 0.0 < high
    assert np.ptp(predicted.mean()[30:]) < 0.25
    assert np.mean(np.diff(predicted.interval()[30:], axis=1)) > 0.6


def test_every_real_episode_moves_the_prediction() -> None:
    field, _ = lab_with_history(correlated=True)
    before = predict_success(field).mean()[35]
    after = []
    for successes in (0, 4):
        trials = np.where(np.arange(40) == 35, 4, field.trials)
        after.append(predict_success(Field.of(field.scores, np.where(trials == 4, successes, field.successes), trials)))
    assert after[0].mean()[35] < before < after[1].mean()[35]


def test_near_copies_of_the_best_do_not_take_its_place_away() -> None:
    scores, trials = np.linspace(0, 1, 12), np.full(12, 100)
    successes = np.linspace(10, 80, 12).round()
    alone = predict_success(Field.of(scores, successes, trials)).within(0.1)[-1]
    copies = Field.of(
        np.append(scores, np.full(6, 1.0)), np.append(successes, np.full(6, 80)), np.append(trials, np.full(6, 100))
    )
    among_copies = predict_success(copies).within(0.1)[11:]
    assert alone > 0.8
    assert min(among_copies) > 0.8


def test_siblings_count_less_than_strangers() -> None:
    apart = Field.of([0.0, 1.0, 2.0], [1, 1, 1], [2, 2, 2], ["a", "b", "c"])
    alike = Field.of([0.0, 1.0, 2.0], [1, 1, 1], [2, 2, 2], ["a", "a", "a"])
    assert apart.say() == pytest.approx([1, 1, 1])
    assert alike.say() == pytest.approx([0.5, 0.5, 0.5])


def test_quadrature_agrees_with_drawing_jointly() -> None:
    field, _ = lab_with_history(correlated=True)
    predicted = predict_success(field)
    drawn = predicted.sample(20_000, np.random.default_rng(0))
    assert drawn.mean(axis=0) == pytest.approx(predicted.mean(), abs=0.01)
    within = (drawn >= drawn.max(axis=1, keepdims=True) - 0.05).mean(axis=0)
    assert predicted.within(0.05) == pytest.approx(within, abs=0.015)
    assert predicted.above(0.4) == pytest.approx((drawn >= 0.4).mean(axis=0), abs=0.015)
    better = (drawn > drawn[:, [3]]).mean(axis=0)
    better[3] = 0.5
    assert predicted.better_than(3) == pytest.approx(better, abs=0.015)


def test_zooming_in_gives_what_a_fine_grid_over_everything_gives() -> None:
    field = Field.of([-1.0, -0.5, 0.0, 0.4, 1.1, 1.5], [2, 0, 9, 14, 0, 0], [20, 10, 20, 20, 0, 0])
    z = field.standardised()
    points = spread_points(np.linspace(-5, 5, 61), np.linspace(-2.2, 3.6, 49))
    likelihood = np.exp(log_likelihood(field.successes, field.trials))
    weight = weigh_points(points, Prior(), z, marginal(likelihood), np.where(field.trials > 0, 1.0, 0.0))
    low, share = line_position(points.intercept[:, None], points.slope[:, None], z)
    expected = np.zeros(6)
    for part in np.array_split(np.arange(weight.size), 40):
        density = conditional(likelihood, points.shape[part, None], low[part], share[part])
        expected += weight[part] @ (density @ RATES)
    assert predict_success(field).mean() == pytest.approx(expected, abs=0.01)


def test_the_factored_tables_add_up_to_the_density_of_the_model() -> None:
    """Shape 18: Student's t with 4 degrees of freedom, scatter 0.95; 16 % duds, Beta(0.25, 2); 3 % of any success."""
    shape = 18
    assert (SHAPES[shape].scatter, SHAPES[shape].duds) == (0.95, 0.16)
    likelihood = np.exp(log_likelihood(np.array([[3]]), np.array([[7]])))  # (1, 1, G)
    low, line = 60, LOGITS[60]
    about = t.pdf(LOGITS, 4, loc=line, scale=0.95)
    dud = RATES**0.25 * (1.0 - RATES) ** 2.0  # a density of rates converted to one of logits
    cells = np.diff(EDGES) / (EDGES[-1] - EDGES[0])
    kernel = 0.81 * about / about.sum() + 0.16 * dud / dud.sum() + 0.03 * cells
    expected = kernel * likelihood[0, 0] / (kernel * likelihood[0, 0]).sum()
    found = conditional(likelihood[0], np.array([shape]), np.array([low]), np.array([0.0]))
    assert found[0] == pytest.approx(expected, rel=1e-9)
    assert marginal(likelihood)[0, 0, shape, low] == pytest.approx((kernel * likelihood[0, 0]).sum(), rel=1e-9)
    single = conditional(likelihood[0].astype(np.float32), np.array([shape]), np.array([low]), np.array([0.0]))
    assert single.dtype == np.float32
    assert single[0] == pytest.approx(expected, abs=1e-6)


def test_being_better_than_a_different_one_in_each_of_several_fields() -> None:
    rng = np.random.default_rng(0)
    density = rng.random((2, 3, 4, RATES.size))
    density /= density.sum(axis=-1, keepdims=True)
    other = np.array([[1], [3]]).repeat(3, axis=1)
    found = chance_better(density, other, 0.02)
    assert found[0] == pytest.approx(chance_better(density[0], 1, 0.02))
    assert found[1] == pytest.approx(chance_better(density[1], 3, 0.02))


def test_chances_worked_by_hand() -> None:
    density = np.zeros((2, RATES.size))
    density[0, np.abs(RATES - 0.8).argmin()] = 1.0
    density[1, np.abs(RATES - 0.2).argmin()] = 0.5
    density[1, np.abs(RATES - 0.9).argmin()] = 0.5
    assert chance_within(density, 0.05) == pytest.approx([0.5, 0.5])
    assert chance_within(density, 0.2) == pytest.approx([1.0, 0.5])
    assert chance_above(density, 0.5) == pytest.approx([1.0, 0.5])
    assert chance_better(density, 1)[0] == pytest.approx(0.5)


def test_a_field_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ScoreError, match="successes must lie"):
        Field.of([1.0, 2.0], [3, 0], [2, 0])
    with pytest.raises(LengthMismatch, match="one of each"):
        Field.of([1.0, 2.0], [0], [2])


def test_synthetic_shapes_are_what_they_are_called() -> None:
    rng = np.random.default_rng(0)
    star = np.sort(draw_rates("one star", 50, 15, rng), axis=1)
    assert np.all(star[:, -1] == 0.8)
    assert star[:, :-1].min() >= 0.6
    assert star[:, :-1].max() <= 0.7
    near = draw_rates("near the top", 50, 15, rng)
    assert np.all((near >= 0.7).sum(axis=1) == 10)


def test_intervals_cover_on_families_that_were_left_out() -> None:
    """The whole zoo, 116 predictions: within three standard errors of 95 %, and of 50 % from the other side."""
    places = np.concatenate([leave_one_family_out(read_zoo_table(world)).place for world in WORLDS])
    assert places.size == 116
    assert 0.89 <= np.mean((places >= 0.025) & (places <= 0.975)) <= 0.99
    assert 0.36 <= np.mean((places >= 0.25) & (places <= 0.75)) <= 0.64


def test_intervals_cover_in_synthetic_labs() -> None:
    hidden = hide_in_synthetic_labs("uniform", 0.8, 12, np.random.default_rng(1))
    assert 0.92 <= hidden.coverage(0.95) <= 1.0


def test_an_interval_holds_a_rate_as_both_are_printed() -> None:
    expected = Expected(mean=0.19, low=0.0042, high=0.7349)
    assert expected.describe() == "19 % (0 to 73)"
    assert expected.contains(0.0)
    assert expected.contains(0.734)
    assert not expected.contains(0.736)
