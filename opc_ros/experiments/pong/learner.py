"""DQN and Double DQN: one network learns, and a lagging mean of it plays and provides the target values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opc_ros.errors import TrainingError
from opc_ros.experiments.pong.descent import Descent, flatten
from opc_ros.experiments.pong.emulator import BALL, BALL_BEFORE, HEIGHT, PADDLES, WIDTH
from opc_ros.experiments.pong.playing import CHOICES
from opc_ros.experiments.pong.replay import Batch
from opc_ros.experiments.pong.variants import Variant
from opc_ros.policies.architectures import build_network
from opc_ros.policies.architectures.region_moments import RegionMoments
from opc_ros.policies.input_spec import InputSpec, Normalisation
from opc_ros.policies.weights import save_weights

ARCHITECTURE = "region_moments"
# The ball now and before, the opponent's paddle on the left, the player's own on the right, now and before.
PARAMETERS: dict[str, Any] = {
    "regions": [
        [BALL, 0.0, 1.0],
        [BALL_BEFORE, 0.0, 1.0],
        [PADDLES, 0.0, 0.25],
        [PADDLES, 0.75, 1.0],
        [PADDLES, 0.5, 0.75],
    ],
    "hidden": [64, 64],
}
INPUT = InputSpec(HEIGHT, WIDTH, action_choices=CHOICES.vectors, normalisation=Normalisation(image_range=(0.0, 1.0)))


def value_following(online: Tensor, lagging: Tensor, *, is_double: bool) -> Tensor:
    """The value of the best action after a transition, (B,), given Q of every choice by both networks, (B, K).

    DQN takes the lagging network's largest value; in Double DQN the online network chooses and the lagging one values.
    """
    if not is_double:
        return lagging.max(dim=1).values
    return lagging.gather(1, online.argmax(dim=1, keepdim=True)).squeeze(1)


class Learner:
    """A network, its lagging mean and its optimiser.

    The lagging one also plays and becomes the candidate, because the learned one changes its policy with every update.
    """

    def __init__(self, variant: Variant, lag: int) -> None:
        self._variant = variant
        self._lag = lag
        with torch.random.fork_rng():
            torch.manual_seed(variant.seed)
            network = build_network(ARCHITECTURE, INPUT, PARAMETERS, where=f"variant {variant.name}")
        assert isinstance(network, RegionMoments)
        self._network = network
        self._lagging = copy.deepcopy(network)
        self._descent = Descent(list(network.judge), variant.learning_rate)
        self._lagging_weights = flatten(list(self._lagging.judge))
        self._updates = 0

    @property
    def features(self) -> int:
        """How many numbers the network sees of an image."""
        return int(self._network.judge[0].in_features)  # type: ignore[arg-type]

    def look(self, images: np.ndarray) -> np.ndarray:
        """What the network sees in each image, (B, F) float32."""
        with torch.inference_mode():
            return np.asarray(self._network.look(torch.from_numpy(images)).numpy())

    def choose(self, seen: np.ndarray) -> np.ndarray:
        """The best action for each row of features, (B,)."""
        with torch.inference_mode():
            return np.asarray(self._lagging.judge(torch.from_numpy(seen)).argmax(dim=1).numpy())

    def learn(self, batch: Batch) -> float:
        """As many optimiser steps as the batch holds batches of the variant's size; returns the last loss.

        Targets are computed once for all of them, because the lagging network hardly moves in between.
        """
        known = torch.from_numpy(batch.is_known).float()
        given = (torch.from_numpy(batch.seen), torch.from_numpy(batch.actions), self.targets(batch), known)
        loss = 0.0
        for part in zip(*(values.split(self._variant.batch_size) for values in given), strict=True):
            loss = self._descent.step(*part)
            self._lagging_weights.lerp_(self._descent.weights, 1 / self._lag)
            self._updates += 1
            if not np.isfinite(loss):
                raise TrainingError(f"variant {self._variant.name}: loss is {loss} after {self._updates} updates")
        return loss

    def targets(self, batch: Batch) -> Tensor:
        """Targets for Q of the batch, (B,): the reward on the way plus the value after it."""
        with torch.no_grad():
            following = torch.from_numpy(batch.following)
            lagging = self._lagging.judge(following)
            online = self._network.judge(following) if self._variant.is_double else lagging
            value = value_following(online, lagging, is_double=self._variant.is_double)
            return torch.from_numpy(batch.returns) + torch.from_numpy(batch.weight) * value

    def save_weights(self) -> bytes:
        """The bytes that become a candidate's artifact."""
        return save_weights(self._lagging)

    def state(self) -> dict[str, Any]:
        """Everything a learner needs to resume."""
        return {
            "network": self._network.state_dict(),
            "lagging": self._lagging.state_dict(),
            "descent": self._descent.state(),
            "updates": self._updates,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._network.load_state_dict(state["network"])
        self._lagging.load_state_dict(state["lagging"])
        self._descent.restore(state["descent"])
        self._updates = state["updates"]
