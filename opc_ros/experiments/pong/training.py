"""One training run of a variant: play, learn, write checkpoints as candidates, and go on where it was cut off."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opc_ros.errors import TrainingError
from opc_ros.experiments.pong.emulator import ACTIONS, PongGame
from opc_ros.experiments.pong.learner import ARCHITECTURE, INPUT, PARAMETERS, Learner
from opc_ros.experiments.pong.replay import Decisions, Replay
from opc_ros.experiments.pong.variants import Variant
from opc_ros.policies.candidate import Candidate, read_candidate, write_candidate
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.progress import Report, ignore_progress

_PLAY, _LEARN = 1, 2  # streams of random numbers


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long a run plays and learns; the same for all variants."""

    decisions: int = 60_000  # of all games together
    checkpoints: int = 7
    warm_up: int = 1_000  # decisions before the first update
    updates_per_decision: float = 0.5
    explored: int = 8_000  # decisions over which random actions become rare
    epsilon: float = 0.05  # share of random actions from then on
    steps: int = 10  # of play that an update looks ahead before it asks the lagging network
    lag: int = 300  # updates whose weights the lagging network averages
    capacity: int = 100_000  # decisions in the replay

    def __post_init__(self) -> None:
        if self.checkpoints < 1 or self.decisions < 200 * self.checkpoints:
            raise TrainingError(
                f"{self.decisions} decisions for {self.checkpoints} checkpoints, expected at least 200 for each"
            )

    def epsilon_at(self, decision: int) -> float:
        return max(self.epsilon, 1.0 - (1.0 - self.epsilon) * decision / self.explored)


class TrainingRun:
    """A variant on its way; cut off, it goes on from its last checkpoint to the same weights.

    At each checkpoint all games are left and begun anew, so that weights and replay are all there is to keep.
    """

    def __init__(
        self, variant: Variant, schedule: Schedule, games: list[PongGame], starts: list[Any], out: Path
    ) -> None:
        self._variant = variant
        self._schedule = schedule
        self._games = games
        self._starts = starts
        self._out = out
        self._learner = Learner(variant, schedule.lag)
        self._replay = Replay(schedule.capacity, len(games), self._learner.features)
        self._rows = schedule.decisions // schedule.checkpoints // len(games)  # of each game between checkpoints
        self._done = 0  # checkpoints
        self._resume()

    def train(self, report: Report = ignore_progress) -> list[Candidate]:
        """Run to the last checkpoint; every one is a candidate folder."""
        while self._done < self._schedule.checkpoints:
            if self._variant.is_frozen and self._done == 0:
                self._fill()
            self._advance(report)
            self._done += 1
            self._write_candidate()
            self._save_state()
        return [read_candidate(self._out / self._name(index)) for index in range(1, self._done + 1)]

    def _fill(self) -> None:
        """A random player's games, as long as the other variants play."""
        players = _Players(self._games, self._starts, self._learner, self._rng(_PLAY))
        for _ in range(self._rows * self._schedule.checkpoints):
            self._replay.append(players.play(1.0))

    def _advance(self, report: Report) -> None:
        """Play and learn from one checkpoint to the next."""
        schedule, rng = self._schedule, self._rng(_LEARN)
        players = _Players(self._games, self._starts, self._learner, self._rng(_PLAY))
        owed = 0.0
        for row in range(self._rows):
            decision = (self._done * self._rows + row) * len(self._games)
            if not self._variant.is_frozen:
                self._replay.append(players.play(schedule.epsilon_at(decision), is_last=row == self._rows - 1))
            if self._variant.is_frozen or decision >= min(schedule.warm_up, schedule.decisions // 8):
                owed += len(self._games) * schedule.updates_per_decision
            while owed >= 1:
                owed -= 1
                self._learner.learn(
                    self._replay.draw(rng, self._variant.batch_size, schedule.steps, self._variant.discount)
                )
            report(decision + len(self._games), schedule.decisions, self._variant.name)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((self._variant.seed, stream, self._done))

    def _step_of(self, checkpoint: int) -> int:
        return checkpoint * self._rows * len(self._games)

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
        """What must be the same for a state to be of this run."""
        values = [dataclasses.asdict(self._variant), dataclasses.asdict(self._schedule)]
        sizes = [len(self._games), len(self._starts), PARAMETERS]
        return hashlib.sha256(json.dumps([values, sizes], sort_keys=True).encode()).hexdigest()

    @property
    def _state_path(self) -> Path:
        return self._out / f".{self._variant.name}.state"

    def _save_state(self) -> None:
        is_over = self._done == self._schedule.checkpoints
        replay = {} if is_over else {k: torch.from_numpy(v) for k, v in self._replay.rows().arrays().items()}
        state = {"identity": self._identity(), "done": self._done, "learner": self._learner.state(), "replay": replay}
        buffer = io.BytesIO()
        torch.save(state, buffer)
        part = self._state_path.with_suffix(".part")
        part.write_bytes(buffer.getvalue())
        part.replace(self._state_path)

    def _resume(self) -> None:
        path = self._state_path
        if not path.exists():
            return
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)
        except Exception as error:  # torch raises whatever its reader met
            raise TrainingError(f"{path}: cannot be read; remove it to start the run anew") from error
        if state["identity"] != self._identity():
            raise TrainingError(f"{path}: is of another budget or version; remove it or choose another folder")
        self._done = state["done"]
        self._learner.restore(state["learner"])
        if state["replay"]:
            self._replay.append(Decisions(**{name: values.numpy() for name, values in state["replay"].items()}))


class _Players:
    """Games side by side, each beginning anew at a random start when its point is over."""

    def __init__(self, games: list[PongGame], starts: list[Any], learner: Learner, rng: np.random.Generator) -> None:
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
            lived.wins[0, index], lived.ends[0, index] = game.points > 0, game.is_over
            if game.is_over:
                self._begin(game)
        self._seen = self._look()
        return lived

    def _begin(self, game: PongGame) -> None:
        game.begin(self._starts[self._rng.integers(len(self._starts))], 0.0, self._rng)

    def _look(self) -> np.ndarray:
        return self._learner.look(np.stack([game.picture for game in self._games]))
