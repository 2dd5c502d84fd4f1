"""The paper's training variants, each a colour in its scatter plot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """How one run learns; the defaults are plain DQN."""

    name: str
    seed: int = 0
    is_double: bool = False  # the online network chooses the action, the lagging one values it
    discount: float = 0.99
    learning_rate: float = 1e-3
    batch_size: int = 128
    is_frozen: bool = False  # the replay memory is filled by a random player first, and nothing is added later


VARIANTS = (
    Variant("DQN"),
    Variant("DDQN", is_double=True),
    Variant("DQN_gamma9", discount=0.9),
    Variant("DQN2", seed=1),
    Variant("DDQN2", seed=1, is_double=True),
    Variant("DQN_lr", learning_rate=4e-4),
    Variant("DQN_b256", batch_size=256),
    Variant("DQN_fixranddata", is_frozen=True),
    Variant("DDQN_fixranddata", is_frozen=True, is_double=True),
)

# Its checkpoints play the validation episodes; they are not candidates.
BEHAVIOUR = Variant("behaviour", seed=2, is_double=True)
