"""An aborted policy is recognised by its answers; relatives that learned something else are not mistaken for it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from opc_ros.deployment.approval_queue import decide_request
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.known_again import Identity
from opc_ros.deployment.outcomes import abort_request
from opc_ros.policies.behaviour_identity import behaviour_id
from opc_ros.policies.candidate import Candidate, read_candidate, write_candidate
from opc_ros.policies.exporting import SUFFIX, build_module, export_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest
from opc_ros.ranking.answers import choose_probes, compare_answers
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.deployment.fleet import Fleet, say
from tests.policies.making import make_candidate, make_episodes

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "opc_ros" / "docs" / "tutorials" / "own-policy.md"
ZOO = ROOT / "sim_bridge" / "zoo" / "candidates"
EPISODES = make_episodes(24)


def ask(candidates: list[Candidate], folder: Path) -> dict[str, dict[str, float]]:
    """What the scorer would write into its ranking, by name."""
    with QCache(folder / "q.sqlite") as cache:
        scored = score_candidates(MemorySource(EPISODES), candidates, cache, LocalEngine(allow_code=True))
    assert not scored.failed_candidates
    facts = scored.facts
    probes = choose_probes([f.file_sha256 for f in facts], [f.started_ns for f in facts], [f.steps for f in facts])
    return {
        candidate.name: {probe.name: float(row[probe.index]) for probe in probes}
        for candidate, row in zip(scored.candidates, scored.q, strict=True)
    }


def change_weights(candidate: Candidate, folder: Path, name: str, noise: float) -> Candidate:
    """A copy with every weight moved a little, relative to the spread of its tensor."""
    rng = np.random.default_rng(1)
    tensors = {
        key: np.asarray(value + noise * value.std() * rng.standard_normal(value.shape), dtype=value.dtype)
        for key, value in sorted(safetensors.numpy.load(candidate.artifact_bytes).items())
    }
    manifest = dataclasses.replace(candidate.manifest, name=name)
    return write_candidate(folder / name, manifest, safetensors.numpy.save(tensors))


def test_another_name_or_slightly_other_bytes_are_the_same_policy(tmp_path: Path) -> None:
    original = make_candidate(tmp_path / "original", name="original", seed=3)
    renamed = write_candidate(
        tmp_path / "renamed", dataclasses.replace(original.manifest, name="renamed"), original.artifact_bytes
    )
    touched = change_weights(original, tmp_path, "touched", 1e-5)
    assert len({original.id, renamed.id, touched.id}) == 3
    answers = ask([original, renamed, touched], tmp_path)
    assert compare_answers(answers["original"], answers["renamed"]) == "same"
    assert compare_answers(answers["original"], answers["touched"]) == "same"
    assert behaviour_id(touched) != behaviour_id(original)  # a digest of bytes alone would have let it through


def test_another_format_is_the_same_policy(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)[:1]
    (tmp_path / "policy.py").write_text(source)
    made = []
    module = build_module(f"{tmp_path / 'policy.py'}:build")
    for artifact_format in ("onnx", "torch_export"):
        spec = InputSpec(64, 64)
        manifest = CandidateManifest(FORMAT_VERSION, artifact_format, SUFFIX[artifact_format], artifact_format, spec)
        made.append(export_candidate(module, tmp_path / artifact_format, manifest))
    answers = ask(made, tmp_path)
    assert compare_answers(answers["onnx"], answers["torch_export"]) == "same"


@pytest.mark.parametrize(
    "disguise", [lambda q: 10_000 * q, lambda q: q - 7, lambda q: np.log(q / (1 - q))], ids=["scale", "offset", "logit"]
)
def test_a_rising_curve_over_its_answers_is_no_disguise(disguise: Callable[[np.ndarray], np.ndarray]) -> None:
    q = np.random.default_rng(0).uniform(0.01, 0.99, 64)
    plain, disguised = ({f"p{n}": float(value) for n, value in enumerate(row)} for row in (q, disguise(q)))
    assert compare_answers(plain, disguised) == "same"


def test_the_nearest_relatives_of_the_zoo_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """Averages of three and of four checkpoints, and neighbouring checkpoints of one training run."""
    names = ("trio", "quartet", "pair", "mended-00800", "aimed-00600", "aimed-00900")
    answers = ask([read_candidate(ZOO / name) for name in names], tmp_path)
    alike = [
        (one, other)
        for one in names
        for other in names
        if one < other and compare_answers(answers[one], answers[other]) == "same"
    ]
    assert alike == []


def test_probes_stay_while_the_store_grows() -> None:
    keys = [f"k{n}" for n in range(200)]
    before = choose_probes(keys[:100], range(100), [7] * 100)
    after = choose_probes(list(reversed(keys)), list(reversed(range(200))), [7] * 200)
    assert [probe.name for probe in before] == [probe.name for probe in after]
    assert len({probe.index for probe in before}) == 64


def file(fleet: Fleet, name: str, identity: Identity, verdict: Verdict = Verdict.PASS) -> str:
    return fleet.ask(name, say(verdict), candidate_id=name * 12, identity=identity).id


def answers_of(seed: int, noise: float = 0.0) -> dict[str, float]:
    q = np.random.default_rng(seed).uniform(0, 1, 64) + noise * np.random.default_rng(99).normal(size=64)
    return {f"p{n}": float(value) for n, value in enumerate(q)}


def test_an_aborted_policy_under_another_name_is_refused_in_one_line(fleet: Fleet) -> None:
    assert fleet.queue is not None
    queue = fleet.queue
    file(fleet, "a", Identity("b1", answers_of(1)))
    with queue.change("abort", fleet.clock()) as tell:
        abort_request(queue, tell, queue.request("q-a"), "7 safety events on rung reduced, allowed 0")
    for name, identity in (
        ("b", Identity("b1")),  # the same computation, before it has been scored
        ("c", Identity("b2", answers_of(1))),  # another format
        ("d", Identity("b3", answers_of(1, noise=0.001))),  # trivially different bytes
    ):
        filed = queue.request(file(fleet, name, identity))
        assert filed.state == "refused"
        told = "acts like candidate aaaaaaaaaaaa (a), which was aborted: 7 safety events on rung reduced, allowed 0"
        assert filed.reason == told
    assert queue.request(file(fleet, "e", Identity("b4", answers_of(1, noise=0.05)))).state == "queued"
    assert queue.request(file(fleet, "f", Identity("b5", answers_of(2)))).state == "queued"
    other_states = {f"other {name}": value for name, value in answers_of(1).items()}
    unclear = queue.request(file(fleet, "g", Identity("b6", other_states)))
    assert (unclear.state, "cannot be told" in unclear.reason) == ("waiting", True)


def test_a_rejected_policy_under_another_name_goes_to_a_person(fleet: Fleet) -> None:
    assert fleet.queue is not None
    file(fleet, "a", Identity("b1", answers_of(1)), Verdict.INCONCLUSIVE)
    decide_request(fleet.queue, "q-a", "reject", "grace", "hits the bin", fleet.clock())
    again = fleet.queue.request(file(fleet, "b", Identity("b2", answers_of(1))))
    assert again.state == "waiting"
    assert again.reason == "acts like candidate aaaaaaaaaaaa (a), which was rejected: rejected by grace: hits the bin"
