from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
import yaml

from opc_ros.errors import CandidateError
from opc_ros.grasp import ActionBounds, Observation, ToolState
from opc_ros.policies.action_function import ScriptedActionFunction, bring_within, check_answers, find_outside
from opc_ros.policies.action_search import AnswerDraw, CrossEntropySearch
from opc_ros.policies.action_space import ActionChoices
from opc_ros.policies.answering import AnsweringThinker
from opc_ros.policies.averaging import average_candidates
from opc_ros.policies.candidate import read_candidate, write_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.loading import load_q_function, try_candidate
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.policy import Policy, load_policy
from opc_ros.policies.policy_check import check_policy
from opc_ros.policies.q_function import Observations
from opc_ros.policies.worker.host import WorkerHost
from tests.policies.acting import export_policy, make_policy, policy_manifest
from tests.policies.making import make_candidate

STAY = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
ALONG_X = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
TOOL = ToolState(0.5, 0.0, 0.3, 0.0, 0.08)


@pytest.fixture(scope="module")
def host() -> Iterator[WorkerHost]:
    with WorkerHost(allow_code=True) as host:
        yield host


def look(red: int, green: int = 128, size: int = 16) -> Observation:
    image = np.zeros((size, size, 3), dtype=np.uint8)
    image[:] = (red, green, 0)
    return Observation(1, image, TOOL)


def states(size: int, count: int = 6) -> Observations:
    rng = np.random.default_rng(3)
    images = rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    return Observations(images, rng.normal((0.5, 0, 0.3, 0, 0.08), 0.02, (count, 5)).astype(np.float32))


@pytest.mark.parametrize("artifact_format", ["onnx", "torch_export"])
def test_an_exported_policy_chooses_what_its_network_answers_in_its_own_process_too(tmp_path, host, artifact_format):
    candidate = export_policy(tmp_path / "c", artifact_format)
    here = load_policy(candidate, allow_code=True)
    # (255 / 255 - 0.5) * 0.1 = 0.05 and (51 / 255 - 0.5) * 0.1 = -0.03, and down 0.03 m.
    expected = [0.05, -0.03, -0.03, 0.0, 1.0, 0.0, 0.0, 0.0]
    choice = here.decide(look(255, 51), seed=4, step=0)
    assert choice.vector.tolist() == pytest.approx(expected, abs=1e-6)
    assert choice.q is None
    with closing(host.load_policy(candidate)) as there:
        np.testing.assert_array_equal(there.decide(look(255, 51), seed=4, step=0).vector, choice.vector)


def test_a_named_architecture_answers_actions_within_its_bounds_alike_alone_and_in_its_own_process(tmp_path, host):
    candidate = make_policy(tmp_path / "c")
    seen = states(32)
    actions, _ = load_policy(candidate).decide_each(seen, seed=0)
    assert actions.shape == (6, 8)
    assert find_outside(actions, ActionBounds()) == ""
    assert np.ptp(actions[:, 0]) > 0
    with closing(host.load_policy(candidate)) as there:
        np.testing.assert_array_equal(there.decide_each(seen, seed=0)[0], actions)
    alone, _ = load_policy(candidate).decide_each(seen.rows(4, 5), seed=0)
    np.testing.assert_array_equal(alone[0], actions[4])


def test_which_sample_is_used_depends_on_seed_and_step(tmp_path, host):
    candidate = export_policy(tmp_path / "c", samples=8)
    policy = load_policy(candidate)

    def drawn(seed: int, step: int) -> int:
        """The k-th sample moves k mm further than the grey image's 0."""
        moved = policy.decide(look(128), seed=seed, step=step).vector[0] - 0.1 * (128 / 255 - 0.5)
        return round(1000 * float(moved))

    found = [drawn(seed, step) for seed in (1, 2) for step in range(20)]
    expected = [int(np.random.default_rng(1000 * seed + step).integers(8)) for seed in (1, 2) for step in range(20)]
    assert found == expected
    assert len(set(found)) > 4
    with closing(host.load_policy(candidate)) as there:
        np.testing.assert_array_equal(
            there.decide(look(128), seed=2, step=7).vector, policy.decide(look(128), seed=2, step=7).vector
        )


def test_an_answer_beyond_the_bounds_is_clipped_and_its_flags_are_decided_at_a_half():
    answers = np.array([[0.2, -0.2, 0.01, 3.0, 0.0, 0.4, 0.9, 0.6]], dtype=np.float32)
    half = np.sqrt(0.5)
    expected = [[0.08, -0.08, 0.01, half, half, 0.0, 1.0, 1.0]]  # a quarter turn is clipped to an eighth
    np.testing.assert_allclose(bring_within(answers, ActionBounds()), expected, atol=1e-6)


def test_answers_of_the_wrong_shape_or_kind_are_refused_with_what_was_expected():
    with pytest.raises(CandidateError, match=r"returned shape \(2, 7\) for 2 states, expected \(2, 8\)"):
        check_answers(np.zeros((2, 7)), 2, 1)
    with pytest.raises(CandidateError, match=r"expected \(2, 4, 8\)"):
        check_answers(np.zeros((2, 8)), 2, 4)
    with pytest.raises(CandidateError, match="returned int64"):
        check_answers(np.zeros((2, 8), dtype=np.int64), 2, 1)
    with pytest.raises(CandidateError, match="NaN or infinity for 1 of 2 states"):
        check_answers(np.array([STAY, [np.nan] * 8]), 2, 1)


def test_whoever_waits_for_a_confined_candidate_refuses_actions_it_could_not_have_chosen():
    far = np.array([STAY, [0.5, *STAY[1:]]], dtype=np.float32)
    assert find_outside(far[:1], ActionBounds()) == ""
    assert find_outside(far, ActionBounds()) == "dx is +0.5000 m, allowed +-0.0800"
    assert find_outside(np.full((1, 8), np.nan), ActionBounds()) == "is not finite"
    choices = ActionChoices(((1.0,), (-1.0,)))
    assert find_outside(np.array([[1.0], [-1.0]], dtype=np.float32), choices) == ""
    assert find_outside(np.array([[0.5]], dtype=np.float32), choices) == "is none of its choices"


def test_a_manifest_without_a_kind_is_of_a_q_function_and_is_written_as_before(tmp_path):
    q = make_candidate(tmp_path / "q")
    assert q.manifest.kind == "q"
    assert "kind" not in yaml.safe_load(q.manifest_bytes)
    policy = make_policy(tmp_path / "p")
    document = yaml.safe_load(policy.manifest_bytes)
    assert document["kind"] == "policy"
    assert document["action_search"] == {"method": "answer", "samples": 1, "randomness": "seed_and_step"}
    assert read_candidate(tmp_path / "p").id == policy.id


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"action_search": CrossEntropySearch()}, "kind is policy, action_search is cem, expected answer"),
        ({"kind": "q"}, "kind is q, action_search is answer"),
        ({"input": InputSpec(16, 16)}, "expected image, tool if used, once each, for a policy"),
        ({"input": InputSpec(16, 16, arguments=("image",), action_scale=(1.0,) * 8)}, "action_scale is given"),
    ],
)
def test_a_manifest_that_mixes_the_kinds_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(policy_manifest("p", "onnx"), **change)


def test_a_q_function_still_has_to_be_shown_actions():
    with pytest.raises(ValueError, match="expected image and action, tool if used, once each"):
        CandidateManifest(2, "q", "q.onnx", "onnx", InputSpec(16, 16, arguments=("image", "tool")))


def test_a_policy_has_no_q_and_cannot_be_averaged(tmp_path):
    candidate = make_policy(tmp_path / "c")
    with pytest.raises(CandidateError, match="answers actions and no Q"):
        load_q_function(candidate)
    with pytest.raises(CandidateError, match="no Q to average"):
        average_candidates([candidate, make_policy(tmp_path / "d", seed=1)], "both", tmp_path / "both")


def test_weights_of_a_policy_are_no_q_function_and_the_other_way_round(tmp_path):
    q = make_candidate(tmp_path / "q")
    mixed = dataclasses.replace(
        q.manifest, kind="policy", action_search=AnswerDraw(), input=InputSpec(48, 48, arguments=("image", "tool"))
    )
    with pytest.raises(CandidateError, match="architecture 'whole_image', expected one of keypoints for a policy"):
        load_policy(write_candidate(tmp_path / "m", mixed, q.artifact_bytes))


def test_a_policy_that_answers_too_few_numbers_is_refused_when_it_is_added(tmp_path):
    candidate = export_policy(tmp_path / "c")
    more = dataclasses.replace(candidate.manifest, action_search=AnswerDraw(samples=4))
    with pytest.raises(CandidateError, match=r"returned shape \(2, 8\) for 2 states, expected \(2, 4, 8\)"):
        try_candidate(write_candidate(tmp_path / "d", more, candidate.artifact_bytes))


def scripted(function, tmp_path) -> Policy:
    candidate = export_policy(tmp_path / "c")
    return Policy(candidate, AnsweringThinker(candidate.manifest, ScriptedActionFunction(function)))


_coin = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("function", "is_fatal", "words"),
    [
        (lambda i, t: np.tile(STAY, (len(i), 1)), True, "every one of 6 answers is the same action"),
        (lambda i, t: np.tile(STAY, (len(i), 1)) + _coin.normal(0, 0.01, (len(i), 8)), True, "is dropout on"),
        (lambda i, t: STAY + 0.1 * t[:, :1] * ALONG_X, False, "the image is ignored"),
        (lambda i, t: STAY + (i[:, 0, 0, :1] - 127.5) * ALONG_X, False, "6 of 6 answers lie at the bounds"),
        (lambda i, t: np.zeros((len(i), 3)), True, "returned shape (1, 3)"),
    ],
)
def test_what_is_wrong_with_a_policy_is_said_in_plain_words(tmp_path, function, is_fatal, words):
    findings = check_policy(scripted(function, tmp_path), states(16))
    assert any(words in finding.text and finding.is_fatal is is_fatal for finding in findings), findings


def test_a_sound_policy_gives_no_finding(tmp_path):
    assert check_policy(load_policy(export_policy(tmp_path / "c")), states(16)) == ()
