from __future__ import annotations

import numpy as np
import pytest

from opc_ros.experiments.without_q import VARIANTS, score_variants


def test_every_variant_of_the_decision_is_what_it_says() -> None:
    # Two candidates in a success of two steps and failures of one step each.
    lengths, success = np.array([2, 1, 1]), np.array([True, False, False])
    agreed = np.array([[0.0, 0.0, -4.0, -4.0], [-4.0, -4.0, 0.0, -4.0]])
    rated = np.array([[0.2, 0.4, 0.6, 0.0], [0.0, 0.0, -0.3, -0.6]])
    decisive = np.array([[False, True, True, False], [False, False, False, False]])
    scores = score_variants(agreed, rated, decisive, lengths, success)
    assert set(scores) == set(VARIANTS)
    # SoftOPC: 0 less the mean (0 - 4 - 4) / 3, over the spread 2; and -4 less (-4 + 0 - 4) / 3, over sqrt(3).
    assert scores["agreement"].tolist() == pytest.approx([8 / 3 / 2, (-4 + 8 / 3) / np.sqrt(3)])
    assert scores["agreement_with_successes"].tolist() == [0.0, -4.0]
    assert scores["critic"].tolist() == pytest.approx([(0.3 + 0.6 + 0.0) / 3, -0.3])
    assert scores["critic_in_failures"].tolist() == pytest.approx([0.3, -0.45])
    assert scores["critic_at_decisions"].tolist() == pytest.approx([0.5, 0.0])
    # Elsewhere than at decisions its numbers are their mean: -2, 0, -4, -2, spread sqrt(2), and nothing to say.
    assert scores["agreement_at_decisions"].tolist() == pytest.approx([(-1 + 7 / 3) / np.sqrt(2), 0.0])
    # Of two candidates the better is one standard deviation above the mean, the other as much below.
    assert scores["critic_and_agreement"].tolist() == pytest.approx([1.0, -1.0])
