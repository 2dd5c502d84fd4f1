from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from opc_ros.policies.check import check_q_function
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations, ScriptedQFunction
from tests.policies.making import make_candidate

Function = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def states(size: int = 8) -> tuple[Observations, np.ndarray]:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (6, size, size, 3), dtype=np.uint8)
    tools = rng.uniform(0, 0.5, (6, 5)).astype(np.float32)
    return Observations(images, tools), rng.uniform(-0.08, 0.08, (6, 8)).astype(np.float32)


def good(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return 0.5 + images.mean(axis=(1, 2, 3)) / 1000 + actions[:, 0]


def raises(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
    raise RuntimeError("mat1 and mat2\ncannot be multiplied")


_coin = np.random.default_rng(0)

CASES: list[tuple[Function, bool, str]] = [
    (raises, True, "raised RuntimeError: mat1 and mat2 cannot be multiplied"),
    (lambda i, t, a: np.zeros((len(a), 3)), True, "returned shape (6, 3)"),
    (lambda i, t, a: np.full(len(a), np.nan), True, "NaN or infinity for 6 of 6"),
    (lambda i, t, a: np.full(len(a), 0.25), True, "every one of 6 answers is 0.25: the output is constant"),
    (lambda i, t, a: good(i, t, a) + _coin.random(len(a)), True, "two identical calls differ"),
    (lambda i, t, a: good(i, t, a * 0), True, "the action is ignored"),
    (lambda i, t, a: 0.5 + a[:, 0], False, "the image is ignored"),
    (lambda i, t, a: good(i, t, a) / good(i, t, a).sum(), True, "looks at its neighbours in the batch"),
    (lambda i, t, a: good(i, t, a) * 100, False, "expected 0 to 1"),
]


@pytest.mark.parametrize(("function", "is_fatal", "words"), CASES, ids=[case[2][:30] for case in CASES])
def test_what_is_wrong_is_said_in_plain_words(function: Function, is_fatal: bool, words: str) -> None:
    findings = check_q_function(ScriptedQFunction(function), *states())
    assert any(words in finding.text and finding.is_fatal is is_fatal for finding in findings), findings


def test_a_sound_q_function_gives_no_finding(tmp_path) -> None:
    assert check_q_function(ScriptedQFunction(good), *states()) == ()
    network = load_q_function(make_candidate(tmp_path, image_size=32))
    assert check_q_function(network, *states(32)) == ()


def test_recorded_actions_that_are_all_equal_do_not_make_a_candidate_seem_to_ignore_them() -> None:
    observations, actions = states()
    equal = np.repeat(actions[:1], len(actions), axis=0)
    reads_action = ScriptedQFunction(lambda images, tools, chosen: images.mean(axis=(1, 2, 3)) / 255 + chosen[:, 0])
    assert not any(
        "action is ignored" in finding.text for finding in check_q_function(reads_action, observations, equal)
    )
