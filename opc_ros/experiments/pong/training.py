"""One training run of a variant: play, learn, write checkpoints as candidates, and resume after an interruption."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opc_ros.durable import replace_file
from opc_ros.errors import TrainingError
from opc_ros.experiments.pong.emulator import ACTIONS, PongGame
from opc_ros.experiments.pong.learner import ARCHITECTURE, INPUT, PARAMETERS, Learner
from opc_ros.experiments.pong.replay import Decisions, PongReplay
from opc_ros.experiments.pong.variants import Variant
from opc_ros.policies.action_search import ChoiceSearch
from opc_ros.policies.candidate import Candidate, read_candidate, write_candidate
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.progress import Report, ignore_progress
from opc_ros.task import PONG

_PLAY, _LEARN = 1, 2  # streams of random numbers


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long a run plays and learns; the same for all variants."""

    decisions: int = 200_000  # of all games together
    checkpoints: int = 12
    warm_up: int = 1_000  # decisions before the first update
    updates_per_decision: float = 0.5
    explored: int = 8_000  # decisions over which random actions become rare
    epsilon: float = 0.02  # share of random actions after that
    steps: int = 3  # of play that an update looks ahead before it uses the lagging network's value
    lag: int = 300  # updates over which the lagging network averages weights
    capacity: int = 200_000  # decisions in the replay memory

    def __post_init__(self) -> None:
        if self.checkpoints < 1 or self.decisions < 200 * self.checkpoints:
            raise TrainingError(
                f"{self.decisions} decisions for {self.checkpoints} checkpoints, expected at least 200 for each"
            )

    def decisions_at(self, checkpoint: int) -> int:
        """Checkpoints are denser early on: a policy changes most when it begins to learn."""
        return round(self.decisions * (checkpoint / self.checkpoints) ** 2)

    def epsilon_at(self, decision: int) -> float:
        return max(self.epsilon, 1.0 - (1.0 - self.epsilon) * decision / self.explored)


class PongRun:
    """A variant's run; after an interruption it resumes from its last checkpoint and arrives at the same weights.

    At each checkpoint all games are left and started again, so that only weights and replay memory must be kept.
    """

    def __init__(
        self, variant: Variant, schedule: Schedule, games: Sequence[PongGame], starts: Sequence[Any], out: Path
    ) -> None:
        self._variant = variant
        self._schedule = schedule
        self._games = games
        self._starts = starts
        self._out = out
        self._learner = Learner(variant, schedule.lag)
        self._replay = PongReplay(schedule.capacity, len(games), self._learner.features)
        self._done = 0  # checkpoints
        self._resume()

    @property
    def is_over(self) -> bool:
        return self._done == self._schedule.checkpoints

    @property
    def decisions(self) -> int:
        """How many decisions have been made up to the last checkpoint."""
        return self._step_of(self._done)

    def candidates(self) -> list[Candidate]:
        """All checkpoints so far."""
        return [read_candidate(self._out / self._name(index)) for index in range(1, self._done + 1)]

    def train(self, report: Report = ignore_progress) -> list[Candidate]:
        """Run to the last checkpoint; every one is a candidate folder."""
        while not self.is_over:
            self.reach_next(report)
        return self.candidates()

    def reach_next(self, report: Report = ignore_progress) -> None:
        """Play and learn up to the next checkpoint, and keep it."""
        if self._variant.is_frozen and self._done == 0:
            self._fill()
        self._advance(report)
        self._done += 1
        self._write_candidate()
        self._save_state()

    def _fill(self) -> None:
        """A random player's games, as long as those of the other variants."""
        players = _Players(self._games, self._starts, self._learner, self._rng(_PLAY))
        for _ in range(self._rows_at(self._schedule.checkpoints)):
            self._replay.append(players.play(1.0))

    def _advance(self, report: Report) -> None:
        schedule, rng = self._schedule, self._rng(_LEARN)
        players = _Players(self._games, self._starts, self._learner, self._rng(_PLAY))
        end = self._rows_at(self._done + 1)
        owed = 0.0
        for row in range(self._rows_at(self._done), end):
            decision = row * len(self._games)
            if not self._variant.is_frozen:
                self._replay.append(players.play(schedule.epsilon_at(decision), is_last=row == end - 1))
            if self._variant.is_frozen or decision >= min(schedule.warm_up, schedule.decisions // 8):
                owed += len(self._games) * schedule.updates_per_decision
            updates = int(owed)
            if updates:
                owed -= updates
                count = updates * self._variant.batch_size
                self._learner.learn(self._replay.draw(rng, count, schedule.steps, self._variant.discount))
            report(decision + len(self._games), schedule.decisions, self._variant.name)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((self._variant.seed, stream, self._done))

    def _rows_at(self, checkpoint: int) -> int:
        """Decisions of each game up to a checkpoint; no two checkpoints are the same."""
        return max(checkpoint, self._schedule.decisions_at(checkpoint) // len(self._games))

    def _step_of(self, checkpoint: int) -> int:
        return self._rows_at(checkpoint) * len(self._games)

    def _name(self, checkpoint: int) -> str:
        return f"{self._variant.name}-{self._step_of(checkpoint):07d}"

    def _write_candidate(self) -> None:
        settings = {k: v for k, v in dataclasses.asdict(self._variant).items() if k not in ("name", "seed")}
        manifest = CandidateManifest(
            format_version=FORMAT_VERSION,
            name=self._name(self._done),
            artifact="weights.safetensors",
            format="safetensors",
            input=INPUT,
            architecture=ARCHITECTURE,
            hyper_parameters=PARAMETERS,
            task=PONG.name,
            action_search=ChoiceSearch(),
            provenance=Provenance(
                family=self._variant.name,
                training_run=f"{self._variant.name}-{self._identity()[:12]}",
                step=self._step_of(self._done),
                seed=self._variant.seed,
                notes=json.dumps(settings, sort_keys=True),
            ),
        )
        write_candidate(self._out / manifest.name, manifest, self._learner.save_weights())

    def _identity(self) -> str:
        """What must be equal for a saved state to belong to this run."""
        values = [dataclasses.asdict(self._variant), dataclasses.asdict(self._schedule)]
        sizes = [len(self._games), len(self._starts), PARAMETERS, PONG.name, ACTIONS]
        return hashlib.sha256(json.dumps([values, sizes], sort_keys=True).encode()).hexdigest()

    @property
    def _state_path(self) -> Path:
        return self._out / f".{self._variant.name}.state"

    def _save_state(self) -> None:
        replay = {} if self.is_over else {k: torch.from_numpy(v) for k, v in self._replay.rows().arrays().items()}
        state = {"identity": self._identity(), "done": self._done, "learner": self._learner.state(), "replay": replay}
        buffer = io.BytesIO()
        torch.save(state, buffer)
        replace_file(self._state_path, buffer.getvalue())

    def _resume(self) -> None:
        path = self._state_path
        if not path.exists():
            return
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)
        except Exception as error:  # torch passes on whatever its reader raised
            raise TrainingError(f"{path}: cannot be read; remove it to start the run over") from error
        if state["identity"] != self._identity():
            raise TrainingError(f"{path}: is of another budget or version; remove it or choose another folder")
        self._done = state["done"]
        self._learner.restore(state["learner"])
        if state["replay"]:
            self._replay.append(Decisions(**{name: values.numpy() for name, values in state["replay"].items()}))


class _Players:
    """Games in parallel, each starting again at a random start when its point is over."""

    def __init__(
        self, games: Sequence[PongGame], starts: Sequence[Any], learner: Learner, rng: np.random.Generator
    ) -> None:
        self._games = games
        self._starts = starts
        self._learner = learner
        self._rng = rng
        for game in games:
            self._begin(game)
        self._seen = self._look()

    def play(self, epsilon: float, *, is_last: bool = False) -> Decisions:
        """One decision in each game, random with probability epsilon."""
        count = len(self._games)
        actions = self._rng.integers(len(ACTIONS), size=count)
        if epsilon < 1.0:
            is_random = self._rng.random(count) < epsilon
            actions = np.where(is_random, actions, self._learner.choose(self._seen))
        lived = Decisions.empty(1, count, self._learner.features)
        lived.seen[0], lived.actions[0], lived.cuts[0] = self._seen, actions, is_last
        for index, (game, action) in enumerate(zip(self._games, actions.tolist(), strict=True)):
            game.decide(action)
            lived.points[0, index], lived.ends[0, index] = game.points, game.points != 0
            if game.is_over:
                lived.cuts[0, index] = True  # an endless rally has no end to learn from
                self._begin(game)
        self._seen = self._look()
        return lived

    def _begin(self, game: PongGame) -> None:
        game.begin(self._starts[int(self._rng.integers(len(self._starts)))], 0.0, self._rng)

    def _look(self) -> np.ndarray:
        return self._learner.look(np.stack([game.image for game in self._games]))
