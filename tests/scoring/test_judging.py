from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.camera import CameraSpec
from opc_ros.episode import Episode
from opc_ros.errors import ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.critic import FOLDS, IMAGE_SIDE, fit_critic
from opc_ros.policies.image_view import resize_image
from opc_ros.policies.landing_view import LandingView
from opc_ros.policies.policy import load_policy, seed_of_recorded
from opc_ros.policies.q_function import Observations
from opc_ros.scoring import Answers, Reweighter, compute_metric, find_metric, known_values, value_rows
from opc_ros.scoring.agreement import AgreementJudge, find_flags
from opc_ros.scoring.engines import LocalEngine, NoEngine
from opc_ros.scoring.judging import score_by_judge
from opc_ros.scoring.q_cache import ACTED, QCache, QCacheEntry
from opc_ros.scoring.recorded_set import RecordedSet
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from opc_ros.scoring.value_rows import RowsOnDisk
from opc_ros.task import GRASPING, PONG
from tests.policies.acting import make_policy
from tests.policies.making import make_candidate, make_episodes

EPISODES = make_episodes(12, image_size=48)


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    """Two policies and a Q function."""
    folder = tmp_path_factory.mktemp("field")
    return [make_policy(folder / "p0"), make_policy(folder / "p1", seed=1), make_candidate(folder / "q")]


def recorded(actions: list[list[float]], lengths: list[int]) -> RecordedSet:
    count = len(actions)
    return RecordedSet(
        task=GRASPING,
        keys=tuple(f"{index:064d}" for index in range(len(lengths))),
        images=np.zeros((count, 4, 4, 3), dtype=np.uint8),
        states=np.zeros((count, 5), dtype=np.float32),
        actions=np.array(actions, dtype=np.float32),
        lengths=np.array(lengths),
        success=np.array([True, *[False] * (len(lengths) - 1)]),
    )


def test_distance_is_in_units_of_how_much_actions_vary_as_far_from_the_end() -> None:
    rest = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    # Last steps move 0 and 4 cm along x, standard deviation 2; first steps 0 and 8, standard deviation 4.
    rest[1] = 0.07  # in single precision
    judge = AgreementJudge(recorded([[0.0, *rest], [0.0, *rest], [0.08, *rest], [0.04, *rest]], [2, 2]))
    own = np.array([[0.04, *rest], [0.04, *rest], [0.08, *rest], [0.04, *rest]], dtype=np.float32)
    assert judge.rate(own).tolist() == pytest.approx([-1.0, -4.0, 0.0, 0.0], rel=1e-5)
    # Numbers that never vary do not count, however the own action differs; a flag counts 1.
    own[2:, 1] = 0.05
    own[3, 6:] = 1.0
    assert judge.rate(own).tolist() == pytest.approx([-1.0, -4.0, 0.0, -2.0], rel=1e-5)


def test_flags_are_known_by_the_task() -> None:
    assert find_flags(GRASPING).tolist() == [False] * 5 + [True] * 3
    assert find_flags(PONG).tolist() == [False]


def test_the_critics_score_is_the_mean_in_which_every_episode_counts_once() -> None:
    values, lengths, success = [1.0, 3.0, 5.0], [2, 1], [True, False]
    assert compute_metric("critic", values, lengths, success) == (2.0 + 5.0) / 2
    weights = np.array([[1.0, 1.0], [3.0, 1.0]])
    scores = Reweighter([np.array(values)], lengths, np.array(success), metric="critic").score(weights)
    assert scores.ravel().tolist() == [3.5, (3 * 2.0 + 5.0) / 4]
    assert find_metric("agreement").score(Answers(values, lengths, success), prior=1.0) == compute_metric(
        "soft_opc_over_spread", values, lengths, success
    )


def walk(episodes: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """One-step episodes in which an action succeeds if it moves forward along x, and not otherwise."""
    states = np.tile(np.float32([0.55, 0.0, 0.3, 0.0, 0.08]), (episodes, 1))
    actions = np.zeros((episodes, 8), dtype=np.float32)
    actions[:, 0] = rng.uniform(-0.08, 0.08, episodes)
    actions[:, 4] = 1.0
    images = rng.integers(0, 40, (episodes, IMAGE_SIDE, IMAGE_SIDE, 3), dtype=np.uint8)
    return images, states, actions, np.ones(episodes, dtype=np.int64), actions[:, 0] > 0


def test_the_critic_prefers_what_succeeded_in_episodes_it_has_not_seen() -> None:
    images, states, actions, lengths, success = walk(200, np.random.default_rng(0))
    keys = [f"{index:064x}" for index in range(200)]
    critic = fit_critic(images, states, actions, lengths, success, keys, None)
    rated = critic.recorded_value
    assert rated[success].mean() - rated[~success].mean() > 0.6
    forth, back = actions.copy(), actions.copy()
    forth[:, 0], back[:, 0] = 0.06, -0.06
    assert (critic.rate(forth) > critic.rate(back)).mean() > 0.95
    np.testing.assert_array_equal(critic.rate(actions), np.zeros(200))
    again = fit_critic(images, states, actions, lengths, success, keys, None)
    np.testing.assert_array_equal(critic.rate(forth), again.rate(forth))


def test_an_episodes_own_outcome_does_not_reach_the_critic_that_judges_it() -> None:
    images, states, actions, lengths, success = walk(60, np.random.default_rng(1))
    keys = [f"{index:064x}" for index in range(60)]
    before = fit_critic(images, states, actions, lengths, success, keys, None).recorded_value
    turned = success.copy()
    turned[7] = not turned[7]
    after = fit_critic(images, states, actions, lengths, turned, keys, None).recorded_value
    assert after[7] == before[7]
    assert np.count_nonzero(after != before) > 60 // FOLDS


def test_the_critic_looks_where_the_action_leads() -> None:
    """A camera that looks straight down on 0.6 m sees x = 0.85 in its top row and y = -0.3 in its left column."""
    scale = IMAGE_SIDE / 0.6
    camera = CameraSpec(
        IMAGE_SIDE,
        IMAGE_SIDE,
        ((0.0, scale, 0.0, 0.3 * scale), (-scale, 0.0, 0.0, 0.85 * scale), (0.0, 0.0, 0.0, 1.0)),
    )
    images = np.zeros((2, IMAGE_SIDE, IMAGE_SIDE, 3), dtype=np.uint8)
    row = int((0.85 - 0.63) * scale)
    images[:, row - 2 : row + 2, IMAGE_SIDE // 2 - 2 : IMAGE_SIDE // 2 + 2, 0] = 255  # a red thing at x 0.63, y 0
    states = np.tile(np.float32([0.55, 0.0, 0.3, 0.0, 0.08]), (2, 1))
    actions = np.zeros((2, 8), dtype=np.float32)
    actions[:, 4] = 1.0
    actions[0, 0] = 0.08
    view = LandingView(images, states, camera)
    patches = view._patches(actions).reshape(2, 10, 10, 3)
    assert patches[0, 4:6, 4:6, 0].min() > 0.8  # straight below the first landing point
    assert patches[1, 4:6, 4:6, 0].max() < 0.1


def test_own_actions_are_what_the_policy_would_have_done_and_are_kept(q_cache: QCache, field: list[Candidate]) -> None:
    scored = score_candidates(MemorySource(EPISODES), field, q_cache, LocalEngine(workers=1), has_only_actions=True)
    assert scored.is_complete
    assert scored.actions is not None
    assert scored.actions.shape == (3, int(scored.lengths.sum()), 8)
    for candidate, found in zip(field, scored.actions, strict=True):
        expected = np.concatenate([_think_again(candidate, episode) for episode in EPISODES[:2]])
        np.testing.assert_array_equal(found[: len(expected)], expected)
    again = score_candidates(MemorySource(EPISODES), field, q_cache, NoEngine(), has_only_actions=True)
    assert again.actions is not None
    np.testing.assert_array_equal(again.actions, scored.actions)


def _think_again(candidate: Candidate, episode: Episode) -> np.ndarray:
    size = candidate.manifest.input.image_size
    images = np.stack([resize_image(step.frame.decode(), size) for step in episode.steps])
    return load_policy(candidate).decide_each(
        Observations(images, episode.states()), seed=seed_of_recorded(episode.id, episode.seed)
    )[0]


@pytest.mark.parametrize("asks", ["agreement", "critic"])
def test_policies_and_q_functions_are_judged_in_one_field_and_once(
    q_cache: QCache, field: list[Candidate], asks: str
) -> None:
    source = MemorySource(EPISODES)
    scored = score_by_judge(source, field, q_cache, LocalEngine(workers=1), asks=asks)  # type: ignore[arg-type]
    assert [candidate.id for candidate in scored.candidates] == [candidate.id for candidate in field]
    assert scored.asks == asks
    assert scored.q.shape == (3, int(scored.lengths.sum()))
    assert np.ptp(scored.q, axis=1).min() > 0
    assert np.abs(scored.q).max() < 1000
    again = score_by_judge(source, field, q_cache, NoEngine(), asks=asks)  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.q, scored.q)
    # Another set of episodes means another judge: nothing of the first one is reused for it.
    fewer = score_by_judge(MemorySource(EPISODES[:11]), field, q_cache, NoEngine(), asks=asks)  # type: ignore[arg-type]
    assert not np.array_equal(fewer.q, scored.q[:, : fewer.q.shape[1]])


def test_a_set_too_large_for_memory_is_judged_alike(
    q_cache: QCache, field: list[Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = score_by_judge(MemorySource(EPISODES), field, q_cache, LocalEngine(workers=1), asks="agreement")
    monkeypatch.setattr(known_values, "LARGE_SET", 3)
    monkeypatch.setattr(value_rows, "HELD", 0)
    on_disk = score_by_judge(MemorySource(EPISODES), field, q_cache, NoEngine(), asks="agreement")
    assert isinstance(on_disk.actions, RowsOnDisk)
    np.testing.assert_array_equal(list(on_disk.actions), held.actions)
    np.testing.assert_array_equal(list(on_disk.q), held.q)


def test_where_q_ranks_a_policy_is_left_out_with_the_reason_and_the_rest_is_scored(
    q_cache: QCache, field: list[Candidate]
) -> None:
    scored = score_candidates(MemorySource(EPISODES), field, q_cache, LocalEngine(workers=1))
    assert [candidate.name for candidate in scored.candidates] == ["whole_image-0"]
    assert {failure.id for failure in scored.failed_candidates} == {field[0].id, field[1].id}
    assert "score it with --metric critic" in scored.failed_candidates[0].reason


def test_candidates_that_state_different_cameras_are_not_judged_together(tmp_path: Path, q_cache: QCache) -> None:
    import dataclasses

    from opc_ros.policies.candidate import write_candidate
    from tests.policies.making import scripted_camera

    one = make_policy(tmp_path / "one")
    elsewhere = dataclasses.replace(
        one.manifest, name="elsewhere", input=dataclasses.replace(one.manifest.input, camera=scripted_camera(100))
    )
    other = write_candidate(tmp_path / "other", elsewhere, one.artifact_bytes)
    with pytest.raises(ScoreError, match="keypoints-0 and elsewhere state different cameras"):
        score_by_judge(MemorySource(EPISODES), [one, other], q_cache, LocalEngine(workers=1), asks="critic")


def test_a_row_of_actions_that_was_cut_short_counts_as_missing(q_cache: QCache, field: list[Candidate]) -> None:
    scored = score_candidates(
        MemorySource(EPISODES[:8]), field[:1], q_cache, LocalEngine(workers=1), has_only_actions=True
    )
    episode = scored.refs[0].key
    steps = int(scored.lengths[0])
    q_cache.append([QCacheEntry(field[0].id, episode, np.zeros(steps * 8 - 1, dtype=np.float32), ACTED)])
    assert episode not in q_cache.read(field[0].id, ACTED)
    assert len(q_cache.read(field[0].id, ACTED)) == 7
