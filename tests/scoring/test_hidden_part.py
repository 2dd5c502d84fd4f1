"""A candidate that recognises recorded episodes scores better on those it could have seen; honest ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from opc_ros.scoring import bootstrap
from opc_ros.scoring.hidden_part import SHARE, compare_with_hidden, find_hidden

LENGTH = 4


def make_q(rng: np.random.Generator, success: np.ndarray, skill: float) -> np.ndarray:
    """Honest answers: a little higher in successful episodes, according to skill."""
    level = skill * np.repeat(success, LENGTH) + rng.normal(0, 0.5, success.size).repeat(LENGTH)
    return level + rng.normal(0, 1.0, success.size * LENGTH)


def chances(
    rng: np.random.Generator, q: list[np.ndarray], success: np.ndarray, hidden: np.ndarray, splits: int = 200
) -> np.ndarray:
    return compare_with_hidden(
        q,
        np.full(success.size, LENGTH),
        success,
        hidden,
        np.zeros((len(q), success.size), np.bool_),
        metric="soft_opc_over_spread",
        splits=splits,
        rng=rng,
    )


def count_false_alarms(labs: int, candidates: int, episodes: int, seed: int) -> int:
    """Honest candidates of any skill that are flagged nevertheless, at 1 in 100."""
    rng = np.random.default_rng(seed)
    alarms = 0
    for lab in range(labs):
        success = rng.random(episodes) < rng.uniform(0.2, 0.6)
        hidden = find_hidden(b"secret %d" % lab, [f"e{n}" for n in range(episodes)])
        q = [make_q(rng, success, skill) for skill in rng.uniform(0, 1.5, candidates)]
        alarms += int((chances(rng, q, success, hidden) < 0.01).sum())
    return alarms


def test_honest_candidates_are_flagged_about_one_in_a_hundred_times() -> None:
    """Of 1,000 candidates in 50 labs 10 are expected; more than 21 would occur about once in 2,000 such tests."""
    assert count_false_alarms(labs=50, candidates=20, episodes=300, seed=0) <= 21


def test_a_q_that_recognises_the_episodes_it_was_shown_is_found() -> None:
    rng = np.random.default_rng(1)
    success = rng.random(400) < 0.4
    hidden = find_hidden(b"secret", [f"e{n}" for n in range(400)])
    honest, cheat = make_q(rng, success, 0.8), make_q(rng, success, 0.0)
    cheat[np.repeat(success & ~hidden, LENGTH)] += 3.0  # success frames that it has seen
    found = chances(rng, [honest, cheat], success, hidden)
    assert found[0] == 1.0
    assert found[1] < 1e-6


def test_which_episodes_are_hidden_stays_as_the_store_grows_and_depends_on_the_secret() -> None:
    ids = [f"e{n}" for n in range(2000)]
    hidden = find_hidden(b"secret", ids)
    assert find_hidden(b"secret", ids[:500]).tolist() == hidden[:500].tolist()
    assert hidden.mean() == pytest.approx(SHARE, abs=0.03)
    assert 0.6 < (find_hidden(b"another", ids) == hidden).mean() < 0.75  # 0.2 * 0.2 + 0.8 * 0.8 = 0.68
    assert not find_hidden(b"", ids).any()


def test_too_few_hidden_episodes_say_nothing() -> None:
    rng = np.random.default_rng(2)
    success = np.arange(40) % 2 == 0
    hidden = np.arange(40) < 8
    assert chances(rng, [make_q(rng, success, 1.0)], success, hidden).tolist() == [1.0]


@pytest.mark.parametrize("pieces", [{"_VALUES_AT_ONCE": 400 * LENGTH}, {"_WEIGHTS_AT_ONCE": 400 * 7}])
def test_a_large_set_processed_in_pieces_gives_the_same_as_at_once(
    pieces: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One candidate at a time, or seven splits: one that has seen half of what is shown is found all the same."""
    rng = np.random.default_rng(1)
    success = rng.random(400) < 0.4
    hidden = find_hidden(b"secret", [f"e{n}" for n in range(400)])
    q = [make_q(rng, success, skill) for skill in (0.8, 0.5, 0.0)]
    q[2][np.repeat(success & ~hidden & (np.arange(400) % 2 == 0), LENGTH)] += 2.0
    at_one_go = chances(np.random.default_rng(2), q, success, hidden)
    for name, number in pieces.items():
        monkeypatch.setattr(bootstrap, name, number)
    in_pieces = chances(np.random.default_rng(2), q, success, hidden)
    np.testing.assert_allclose(in_pieces, at_one_go, rtol=1e-9)
    assert at_one_go[2] < 0.01
