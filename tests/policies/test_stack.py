"""Networks evaluated together answer as if each were alone, and using windows changes nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from opc_ros.policies.architectures import build_network
from opc_ros.policies.architectures.answering import answer_each
from opc_ros.policies.averaging import average_candidates
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.compute import NICENESS
from opc_ros.policies.input_spec import InputSpec, Normalisation
from opc_ros.policies.policy import load_policy
from opc_ros.policies.stack import MOST_MEMBERS, find_stacks
from opc_ros.policies.worker.host import CandidateProcess
from opc_ros.policies.worker.loader import PolicyLoader
from tests.policies.making import make_candidate, make_episode, scripted_camera
from tests.policies.states import check_neighbours, make_states, tensors


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    kinds = ("target_crop", "target_crop", "tool_crop", "whole_image", "target_crop")
    made = [make_candidate(folder / f"{n}", architecture=kind, seed=n, name=f"c{n}") for n, kind in enumerate(kinds)]
    return [*made, average_candidates(made[:2], "both", folder / "both")]


@pytest.fixture(scope="module")
def loader() -> Iterator[PolicyLoader]:
    with PolicyLoader() as opened:
        yield opened


@pytest.mark.parametrize("map_channels", [(6,), (6, 5), (4, 5, 6)])
@pytest.mark.parametrize("image_range", [(-1.0, 1.0), (0.0, 1.0), (-0.3, 2.0)])
def test_a_window_shows_what_the_whole_map_would(
    map_channels: tuple[int, ...], image_range: tuple[float, float]
) -> None:
    torch.manual_seed(1)
    for size in (48, 49):
        spec = InputSpec(size, size, camera=scripted_camera(), normalisation=Normalisation(image_range=image_range))
        network = build_network("target_crop", spec, {"map_channels": list(map_channels)}).train()
        given = tensors(*make_states(image_size=size))
        for layer in network.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = 1.0  # learn at once what is usual, so that signals neither vanish nor saturate
        with torch.no_grad():
            network(*given)
        network.eval()
        with torch.inference_mode():
            whole, (windowed,) = network(*given), answer_each([network], *given)
        spread = np.ptp(whole.numpy())
        assert spread > 0.05  # rows differ, so that a mistake in one would show
        np.testing.assert_allclose(windowed, whole, rtol=0, atol=1e-5 * spread)


def test_a_value_has_the_same_bits_alone_and_in_any_stack(candidates: list[Candidate], loader: PolicyLoader) -> None:
    seen, actions = make_states()
    alone = np.stack([load_policy(candidate).q(seen, actions) for candidate in candidates])
    together = loader.load_stack(candidates)
    np.testing.assert_array_equal(together.q(range(6), seen, actions), alone)
    np.testing.assert_array_equal(together.q([4, 1], seen, actions), alone[[4, 1]])
    np.testing.assert_array_equal(together.policies[3].q(seen, actions), alone[3])


def test_a_value_has_the_same_bits_whatever_its_neighbours_in_a_batch_are(candidates: list[Candidate]) -> None:
    for candidate in candidates:
        check_neighbours(load_policy(candidate).q)


def test_other_batch_sizes_differ_by_rounding_alone(candidates: list[Candidate]) -> None:
    seen, actions = make_states()
    for candidate in candidates:
        policy = load_policy(candidate)
        whole = policy.q(seen, actions)
        for rows in (1, 2, 3, 16):
            part = policy.q(seen.rows(0, rows), actions[:rows])
            np.testing.assert_allclose(part, whole[:rows], rtol=0, atol=2e-6)


def test_members_of_a_stack_decide_as_they_would_alone(candidates: list[Candidate], loader: PolicyLoader) -> None:
    steps = make_episode(3, image_size=48, steps=2).steps
    together = loader.load_stack(candidates)
    for number in (0, 3, 5):
        policy = load_policy(candidates[number])
        for step in steps:
            expected = policy.decide(step.observe(), seed=5, step=1)
            found = together.policies[number].decide(step.observe(), seed=5, step=1)
            np.testing.assert_array_equal(found.vector, expected.vector)
            assert found.q == expected.q


def test_a_member_without_sensible_weights_spoils_only_its_own_row(
    candidates: list[Candidate], loader: PolicyLoader, tmp_path: Path
) -> None:
    good = candidates[0]
    weights = safetensors.torch.load(good.artifact_bytes)
    weights["judge.4.bias"] = torch.full_like(weights["judge.4.bias"], float("nan"))
    state = seen, actions = make_states()
    broken = write_candidate(tmp_path, good.manifest, safetensors.torch.save(weights))
    assert broken.id != good.id
    with pytest.raises(Exception, match="NaN"):
        loader.load_stack([good, broken])  # each is tried when it is loaded, so the stack is not even formed
    np.testing.assert_array_equal(loader.load_stack([good]).q([0], *state)[0], load_policy(good).q(seen, actions))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are known by descriptors on Linux alone")
def test_scored_candidates_stand_back_as_far_as_their_scorer_and_no_farther(candidates: list[Candidate]) -> None:
    with PolicyLoader(niceness=NICENESS) as loader:
        stack = loader.load_stack(candidates[:2])
        assert isinstance(stack, CandidateProcess)
        found = re.search(r"Pid:\t(\d+)", Path(f"/proc/self/fdinfo/{stack._process}").read_text())
        assert found is not None
        expected = max(NICENESS, os.nice(0))  # 10, even if the scorer itself was started at 10
        assert os.getpriority(os.PRIO_PROCESS, int(found[1])) == expected


def test_programs_stay_alone_and_stacks_have_a_size(candidates: list[Candidate], tmp_path: Path) -> None:
    larger = make_candidate(tmp_path, image_size=56)
    stacks = find_stacks([*candidates, larger])
    assert sorted(len(stack) for stack in stacks) == [1, 6]
    assert sorted(len(stack) for stack in find_stacks(candidates, at_least=2)) == [3, 3]
    assert all(len(stack) <= MOST_MEMBERS for stack in find_stacks([larger] * 40))
