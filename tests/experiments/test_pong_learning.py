from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from opc_ros.errors import TrainingError
from opc_ros.experiments.pong import emulator
from opc_ros.experiments.pong.descent import Descent
from opc_ros.experiments.pong.emulator import PongGame, make_starts
from opc_ros.experiments.pong.learner import Learner, value_following
from opc_ros.experiments.pong.playing import open_games
from opc_ros.experiments.pong.replay import Batch, Decisions, PongReplay
from opc_ros.experiments.pong.side_by_side import Training, train_side_by_side
from opc_ros.experiments.pong.training import PongRun, Schedule
from opc_ros.experiments.pong.variants import VARIANTS, Variant

TINY = Schedule(decisions=600, checkpoints=3, warm_up=50, explored=300, lag=20)


@pytest.fixture(scope="module")
def games() -> tuple[PongGame, ...]:
    return open_games(2)


@pytest.fixture(scope="module")
def starts() -> tuple[Any, ...]:
    return make_starts(4, seed=1)


def test_double_dqn_values_what_the_online_network_chooses() -> None:
    online = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 0.0]])
    lagging = torch.tensor([[0.9, 0.1, 0.4], [0.2, 0.3, 0.8]])
    assert value_following(online, lagging, is_double=False).tolist() == pytest.approx([0.9, 0.8])
    assert value_following(online, lagging, is_double=True).tolist() == pytest.approx([0.1, 0.2])


def make_constant(learner: Learner, biases: tuple[float, float, float], lagging: tuple[float, float, float]) -> None:
    """Q is the last layer's bias, whatever the input."""
    state = learner.state()
    for network, values in (("network", biases), ("lagging", lagging)):
        state[network] = {name: torch.zeros_like(weights) for name, weights in state[network].items()}
        state[network]["judge.4.bias"] = torch.tensor(values)
    learner.restore(state)


def one_row(**changes: Any) -> Batch:
    given = {"returns": 0.0, "weight": 0.0, "is_known": True, "action": 1} | changes
    return Batch(
        seen=np.zeros((1, 35), dtype=np.float32),
        actions=np.array([given["action"]]),
        returns=np.array([given["returns"]], dtype=np.float32),
        following=np.zeros((1, 35), dtype=np.float32),
        weight=np.array([given["weight"]], dtype=np.float32),
        is_known=np.array([given["is_known"]]),
    )


def test_one_step_moves_the_chosen_action_towards_its_target() -> None:
    """Q is 0.25, the target 1: loss 0.75^2 / 2. Adam's first step is the learning rate, against the gradient."""
    learner = Learner(Variant("hand", learning_rate=0.01), lag=10)
    make_constant(learner, (0.5, 0.25, -0.5), (0.0, 0.0, 0.0))
    assert learner.learn(one_row(returns=1.0)) == pytest.approx(0.28125)
    biases = learner.state()["network"]["judge.4.bias"]
    assert biases.tolist() == pytest.approx([0.5, 0.26, -0.5], abs=1e-5)


def test_steps_by_hand_are_those_of_automatic_differentiation() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(40, 6, generator=generator)
    actions = torch.randint(3, (40,), generator=generator)
    targets = 3 * torch.randn(40, generator=generator)  # some errors beyond 1, where the loss is linear
    counts = (torch.rand(40, generator=generator) < 0.8).float()
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    theirs = copy.deepcopy(ours)
    descent = Descent(list(ours), 0.01)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    for _ in range(20):
        found = theirs(seen).gather(1, actions[:, None]).squeeze(1)
        loss = (torch.nn.functional.smooth_l1_loss(found, targets, reduction="none") * counts).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert descent.step(seen, actions, targets, counts) == pytest.approx(loss.item(), rel=1e-4)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def test_targets_add_what_follows_by_the_lagging_network() -> None:
    """0.5 on the way, then 0.9 times: DQN takes the lagging 0.4, Double DQN the lagging 0.1 of its own choice 0."""
    for is_double, expected in ((False, 0.86), (True, 0.59)):
        learner = Learner(Variant("hand", is_double=is_double), lag=10)
        make_constant(learner, (2.0, 1.0, 0.0), (0.1, 0.2, 0.4))
        assert learner.targets(one_row(returns=0.5, weight=0.9)).tolist() == pytest.approx([expected])


def test_the_lagging_network_follows_by_a_tenth_and_is_the_one_that_plays_and_is_kept() -> None:
    """The learner's Q of action 1 goes from 0.25 to 0.26, so the lagging one from 0 to 0.026, of 0 from 0.4 to 0.41."""
    learner = Learner(Variant("hand", learning_rate=0.01), lag=10)
    make_constant(learner, (0.5, 0.25, -0.5), (0.4, 0.0, 0.45))
    learner.learn(one_row(returns=1.0))
    lagging = learner.state()["lagging"]["judge.4.bias"]
    assert lagging.tolist() == pytest.approx([0.41, 0.026, 0.355], abs=1e-5)
    assert learner.choose(np.zeros((1, 35), dtype=np.float32)).tolist() == [0]
    assert safetensors.torch.load(learner.save_weights())["judge.4.bias"].tolist() == lagging.tolist()


def test_a_transition_whose_end_is_unknown_teaches_nothing() -> None:
    learner = Learner(Variant("hand"), lag=10)
    make_constant(learner, (0.5, 0.25, -0.5), (0.0, 0.0, 0.0))
    assert learner.learn(one_row(returns=1.0, is_known=False)) == 0.0
    assert learner.state()["network"]["judge.4.bias"].tolist() == pytest.approx([0.5, 0.25, -0.5])


def test_a_batch_of_two_is_two_steps_towards_what_was_worth_what_before_them() -> None:
    """Adam's steps in the same direction are the learning rate each: 0.25, 0.26, 0.27."""
    learner = Learner(Variant("hand", learning_rate=0.01, batch_size=1), lag=10)
    make_constant(learner, (0.5, 0.25, -0.5), (0.0, 0.0, 0.0))
    rows = [dataclasses.asdict(one_row(returns=1.0))] * 2
    both = Batch(**{name: np.concatenate([row[name] for row in rows]) for name in rows[0]})
    assert learner.learn(both) == pytest.approx((1 - 0.26) ** 2 / 2, rel=1e-4)  # of the second step
    assert learner.state()["network"]["judge.4.bias"].tolist() == pytest.approx([0.5, 0.27, -0.5], abs=1e-4)


def test_checkpoints_are_denser_early_on() -> None:
    """900 decisions, 3 checkpoints: after (1/3)^2, (2/3)^2 and all of it."""
    schedule = Schedule(decisions=900, checkpoints=3)
    assert [schedule.decisions_at(index) for index in range(4)] == [0, 100, 400, 900]


def test_a_drawn_transition_sums_the_points_of_its_steps() -> None:
    """One game of 8 rows: won in row 2, lost in row 3, the game is left after row 6; two steps, discount 0.5.

    From row 0: nothing, then what follows counts 0.25. Row 1: 0.5 * 1, over. Row 2: 1, over. Row 3: -1, over. Row 4
    is as row 0, row 5 is cut before its end.
    """
    lived = Decisions.empty(8, 1, 1)
    lived.seen[:, 0, 0] = np.arange(8)
    lived.actions[:, 0] = (0, 1, 2, 0, 1, 2, 0, 1)
    lived.points[2:4, 0] = (1.0, -1.0)
    lived.ends[2:4] = True
    lived.cuts[6] = True
    replay = PongReplay(8, 1, 1)
    replay.append(lived)
    batch = replay.draw(np.random.default_rng(0), 200, 2, 0.5)
    expected = {
        0: (0.0, 0.25, True),
        1: (0.5, 0.0, True),
        2: (1.0, 0.0, True),
        3: (-1.0, 0.0, True),
        4: (0.0, 0.25, True),
        5: (0.0, 0.25, False),
    }
    found = {
        int(row): (float(total), float(weight), bool(is_known))
        for row, total, weight, is_known in zip(
            batch.seen[:, 0], batch.returns, batch.weight, batch.is_known, strict=True
        )
    }
    assert found == expected
    np.testing.assert_array_equal(batch.following[:, 0], batch.seen[:, 0] + 2)
    np.testing.assert_array_equal(batch.actions, batch.seen[:, 0].astype(int) % 3)


def test_a_full_replay_forgets_the_oldest() -> None:
    replay = PongReplay(4, 1, 1)
    for value in range(6):
        row = Decisions.empty(1, 1, 1)
        row.seen[:] = value
        replay.append(row)
    assert replay.rows().seen[:, 0, 0].tolist() == [2, 3, 4, 5]
    assert set(replay.draw(np.random.default_rng(0), 50, 1, 1.0).seen[:, 0].tolist()) == {2, 3, 4}


def test_a_run_that_was_cut_off_ends_with_the_same_weights(
    tmp_path: Path, games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    class CutOff(Exception):
        pass

    def cut_in_the_middle(done: int, total: int, note: str = "") -> None:
        if done > 300:
            raise CutOff

    variant = Variant("DDQN", is_double=True)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = PongRun(variant, TINY, games, starts, whole).train()
    with pytest.raises(CutOff):
        PongRun(variant, TINY, games, starts, parts).train(cut_in_the_middle)
    assert [path.name for path in sorted(parts.glob("[!.]*"))] == ["DDQN-0000066", "DDQN-0000266"]
    found = PongRun(variant, TINY, games, starts, parts).train()
    assert [candidate.id for candidate in found] == [candidate.id for candidate in expected]
    assert len({candidate.artifact_bytes for candidate in found}) == 3
    with pytest.raises(TrainingError, match="another budget"):
        PongRun(variant, Schedule(decisions=800, checkpoints=3), games, starts, parts)


def test_an_endless_rally_teaches_nothing_about_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    monkeypatch.setattr(emulator, "MOST_DECISIONS", 5)  # no point ends within a third of a second
    run = PongRun(Variant("DQN"), TINY, games, starts, tmp_path)
    run.train()
    rows = run._replay.rows()
    assert not rows.ends.any()
    assert rows.cuts[:30].sum(axis=0).tolist() == [6, 6]


def test_runs_side_by_side_end_with_the_weights_of_runs_one_by_one(tmp_path: Path) -> None:
    variants = (Variant("DQN"), Variant("DDQN", seed=1, is_double=True))
    found = [
        train_side_by_side([Training(variant, TINY, 2, 4, 1, tmp_path / str(workers)) for variant in variants], workers)
        for workers in (1, 2)
    ]
    one_by_one, side_by_side = ([[one.id for one in run] for run in runs] for runs in found)
    assert one_by_one == side_by_side
    assert [len(set(run)) for run in one_by_one] == [3, 3]


def test_a_frozen_replay_is_a_random_players_and_does_not_grow(
    tmp_path: Path, games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    run = PongRun(Variant("frozen", is_frozen=True), TINY, games, starts, tmp_path)
    run.train()
    rows = run._replay.rows()
    assert rows.actions.shape == (300, 2)
    np.testing.assert_array_equal(rows.ends, rows.points != 0)  # a reward comes with the end of a point, and only there
    shares = np.bincount(rows.actions.ravel(), minlength=3) / 600
    assert shares == pytest.approx([1 / 3] * 3, abs=0.08)


def test_the_variants_are_the_papers() -> None:
    assert len({variant.name for variant in VARIANTS}) == 9
    assert [variant.name for variant in VARIANTS if variant.is_frozen] == ["DQN_fixranddata", "DDQN_fixranddata"]
    assert {variant.discount for variant in VARIANTS} == {0.99, 0.9}
    assert all(variant.is_double == variant.name.startswith("DDQN") for variant in VARIANTS)
