from __future__ import annotations

import numpy as np
import pytest

from opc_ros.experiments.without_q import MENDS, VARIANTS, score_mends, score_variants


def test_every_variant_of_the_decision_is_what_it_says() -> None:
    # Two candidates in a success of two steps and failures of one step each.
    lengths, success = np.array([2, 1, 1]), np.array([True, False, False])
    agreed = np.array([[0.0, 0.0, -4.0, -4.0], [-4.0, -4.0, 0.0, -4.0]])
    rated = np.array([[0.2, 0.4, 0.6, 0.0], [0.0, 0.0, -0.3, -0.6]])
    decisive = np.array([[False, True, True, False], [False, False, False, False]])
    scores = score_variants(agreed, rated, decisive, lengths, success)
    assert set(scores) == set(VARIANTS)
    # SoftOPC: 0 minus the mean (0 - 4 - 4) / 3, over the spread 2; and -4 minus (-4 + 0 - 4) / 3, over sqrt(3).
    assert scores["agreement"].tolist() == pytest.approx([8 / 3 / 2, (-4 + 8 / 3) / np.sqrt(3)])
    assert scores["agreement_with_successes"].tolist() == [0.0, -4.0]
    assert scores["critic"].tolist() == pytest.approx([(0.3 + 0.6 + 0.0) / 3, -0.3])
    assert scores["critic_in_failures"].tolist() == pytest.approx([0.3, -0.45])
    assert scores["critic_at_decisions"].tolist() == pytest.approx([0.5, 0.0])
    # Outside decisions its numbers are their mean: -2, 0, -4, -2, spread sqrt(2), so they say nothing.
    assert scores["agreement_at_decisions"].tolist() == pytest.approx([(-1 + 7 / 3) / np.sqrt(2), 0.0])
    # With two candidates, the better is one standard deviation above the mean, the other as much below.
    assert scores["critic_and_agreement"].tolist() == pytest.approx([1.0, -1.0])


def make_action(x_m: float, *, is_closing: bool = False) -> np.ndarray:
    return np.array([x_m, 0, 0, 0, 1, 0, is_closing, 0], dtype=np.float64)


def test_improved_variants_use_flags_alone_and_what_the_others_would_do() -> None:
    # A success that closes and a failure that does not, one step each, among three candidates.
    recorded = np.stack([make_action(0.0, is_closing=True), make_action(0.0)])
    own = np.stack(
        [
            np.stack([make_action(0.02, is_closing=True), make_action(0.02, is_closing=True)]),
            np.stack([make_action(0.02), make_action(0.02)]),
            np.stack([make_action(-0.01), make_action(-0.01)]),
        ]
    )
    scores = score_mends(recorded, own, np.full((2, 3), 0.01), np.array([1, 1]), np.array([True, False]))
    assert set(scores) == set(MENDS)
    # Like the success and unlike the failure: 0 and -1, SoftOPC 0.5 over a spread of 0.5; the others the reverse.
    assert scores["agreement_on_flags"].tolist() == pytest.approx([1.0, -1.0, -1.0])
    # The candidates' mean is at 0.01 m, and a third of them close.
    assert scores["peer_agreement"].tolist() == pytest.approx([-(1 + 2 / 3), -(1 + 1 / 3), -(2 + 1 / 3)])
