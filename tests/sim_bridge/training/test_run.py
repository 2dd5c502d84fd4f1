from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opc_ros.errors import TrainingError
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.loading import load_q_function, probe
from sim_bridge.camera import STANDARD_CAMERA
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import Replay
from sim_bridge.training.run import DataOrigin, TrainingRun, camera_spec
from tests.policies.making import scripted_camera

SMALL = {"cells": 8, "map_channels": [4], "patch_channels": [8], "action_hidden": 8, "hidden": 8}


def make_recipe(**changes: Any) -> TrainingRecipe:
    settings: dict[str, Any] = {
        "name": "tiny",
        "image_size": 32,
        "hyper_parameters": SMALL,
        "batch_size": 16,
        "cem_samples": 4,
        "camera": scripted_camera(32),
        "steps": 6,
        "target_every": 4,
    }
    return TrainingRecipe(**{**settings, **changes})


def weights(folder: Path) -> bytes:
    return read_candidate(folder).artifact_bytes


def test_checkpoints_are_whole_candidates_with_provenance(replay: Replay, tmp_path: Path) -> None:
    recipe = make_recipe(checkpoints=(2,), dropout=0.5, family="drops", seed=4)
    run = TrainingRun(recipe, replay, tmp_path, origin=DataOrigin("snapshot", "revision"))
    notes: list[str] = []
    checkpoints = run.train(lambda done, total, note="": notes.append(f"{done}/{total} {note}"))
    assert [checkpoint.step for checkpoint in checkpoints] == [2, 6]
    candidate = read_candidate(tmp_path / "tiny-00006")
    assert candidate.id == checkpoints[1].candidate_id
    assert weights(tmp_path / "tiny-00002") != candidate.artifact_bytes
    provenance = candidate.manifest.provenance
    assert (provenance.family, provenance.training_run, provenance.step, provenance.seed) == ("drops", "tiny", 6, 4)
    assert (provenance.data_snapshot, provenance.git_revision) == ("snapshot", "revision")
    assert '"dropout": 0.5' in provenance.notes
    probe(load_q_function(candidate), candidate.manifest)
    assert notes[-1].startswith("6/6 loss 0.")
    assert "SoftOPC" in notes[-1]


@pytest.mark.parametrize("architecture", ["target_crop", "tool_crop", "whole_image"])
def test_the_same_seed_gives_the_same_weights_and_another_one_others(
    replay: Replay, tmp_path: Path, architecture: str
) -> None:
    recipe = {"architecture": architecture, "hyper_parameters": {}, "steps": 2, "dropout": 0.2, "image_jitter": 1.0}
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / folder).mkdir()
        TrainingRun(make_recipe(**recipe, seed=seed), replay, tmp_path / folder).train()
    a, b, c = (weights(tmp_path / folder / "tiny-00002") for folder in "abc")
    assert a == b
    assert a != c


def test_an_interrupted_run_resumes_to_the_same_weights(replay: Replay, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    TrainingRun(make_recipe(steps=6), replay, whole).train()
    # Step 3 lies between two copies to the target network, so that one must be kept as well.
    TrainingRun(make_recipe(steps=3), replay, parts).train()
    resumed = TrainingRun(make_recipe(steps=6), replay, parts)
    assert resumed.step == 3
    resumed.train()
    assert weights(whole / "tiny-00006") == weights(parts / "tiny-00006")
    assert [checkpoint.step for checkpoint in resumed.checkpoints] == [3, 6]


def test_a_falling_rate_ends_at_its_share_and_an_average_resumes_too(replay: Replay, tmp_path: Path) -> None:
    recipe = make_recipe(steps=4, checkpoints=(2,), learning_rate=0.01, final_rate=0.2, averaging=0.9)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    TrainingRun(recipe, replay, whole).train()
    cut_off = TrainingRun(recipe, replay, parts)
    for expected in (0.01, 0.008):  # 0.01 * (1 - 0.8 * step / 4)
        cut_off.advance()
        assert cut_off._optimiser.param_groups[0]["lr"] == pytest.approx(expected)
    cut_off._losses.append(0.5)
    cut_off._write_checkpoint()
    TrainingRun(recipe, replay, parts).train()
    assert weights(whole / "tiny-00004") == weights(parts / "tiny-00004")
    with pytest.raises(TrainingError, match="is of another recipe"):
        TrainingRun(make_recipe(steps=5, learning_rate=0.01, final_rate=0.2, averaging=0.9), replay, parts)


def test_closing_steps_take_their_share_of_a_batch(replay: Replay, tmp_path: Path) -> None:
    closes = replay.actions[:, 6] > 0.5
    assert 0 < closes.mean() < 0.5
    shares = []
    for share in (0.0, 0.75):
        run = TrainingRun(make_recipe(closing_share=share), replay, tmp_path)
        is_closing = run._actions[:, 6] > 0.5
        drawn = [is_closing[run._draw_rows(np.random.default_rng(seed))].mean() for seed in range(20)]
        shares.append(np.mean(drawn))
    assert shares[0] == pytest.approx(closes.mean(), abs=0.1)
    assert shares[1] >= 0.75


def test_averaged_weights_lie_between_the_first_and_the_last(replay: Replay, tmp_path: Path) -> None:
    run = TrainingRun(make_recipe(averaging=0.5, learning_rate=0.1), replay, tmp_path)
    before = [w.clone() for w in run._network.parameters()]
    run.advance()
    for old, new, average in zip(before, run._network.parameters(), run._written.parameters(), strict=True):
        # After step 1 the past weighs min(0.5, 1/11).
        assert average.detach().numpy() == pytest.approx(((old + 10 * new) / 11).detach().numpy(), abs=1e-6)


def test_a_state_of_another_recipe_is_refused(replay: Replay, tmp_path: Path) -> None:
    TrainingRun(make_recipe(steps=1), replay, tmp_path).train()
    with pytest.raises(TrainingError, match="is of another recipe or other data"):
        TrainingRun(make_recipe(gamma=0.1), replay, tmp_path)
    (tmp_path / ".tiny.state").write_bytes(b"nothing")
    with pytest.raises(TrainingError, match="cannot be read; remove it"):
        TrainingRun(make_recipe(), replay, tmp_path)


def test_training_learns_to_separate_successes(replay: Replay, tmp_path: Path) -> None:
    recipe = make_recipe(targets="monte_carlo", gamma=1.0, steps=120, learning_rate=5e-3, held_out=0.3)
    run = TrainingRun(recipe, replay, tmp_path)
    before = run.score_held_out()
    (last,) = run.train()
    assert abs(before) < 0.03
    assert last.soft_opc > before + 0.05
    assert last.loss < np.log(2)


def test_wrong_action_scaling_changes_what_is_learnt(replay: Replay, tmp_path: Path) -> None:
    for folder, gain in (("right", 1.0), ("wrong", 3.0)):
        (tmp_path / folder).mkdir()
        TrainingRun(make_recipe(action_gain=gain, steps=2), replay, tmp_path / folder).train()
    assert weights(tmp_path / "right" / "tiny-00002") != weights(tmp_path / "wrong" / "tiny-00002")


def test_a_candidates_camera_agrees_with_the_twins() -> None:
    camera = STANDARD_CAMERA.calibrate(96)
    point = np.array([0.62, -0.04, 0.07, 1.0])
    u, v, w = np.array(camera_spec(camera).projection) @ point
    # The twin counts from the first pixel's centre, candidates from the image's corner.
    np.testing.assert_allclose([u / w - 0.5, v / w - 0.5], camera.project(point[None, :3])[0], atol=1e-5)
