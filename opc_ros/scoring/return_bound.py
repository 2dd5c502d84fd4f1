"""The return that is guaranteed despite a small chance of mistakes (Irpan et al. 2019, theorem 1)."""

from __future__ import annotations

from opc_ros.errors import ScoreError


def return_bound(error: float, horizon: int, slip: float = 0.0) -> float:
    """The lowest return possible given the mean chance of a first catastrophic action, Theorem 1.

    R(pi) >= 1 - T * (eps + c); 0 if the bound is negative, because no return is below 0.

    Args:
        error: eps, mean over steps of the chance that the policy makes its first mistake there.
        horizon: T, steps of an episode.
        slip: c, worst chance that the dynamics alone turn a feasible action into a catastrophic state.
    """
    for name, value in (("error", error), ("slip", slip)):
        if not 0.0 <= value <= 1.0:
            raise ScoreError(f"{name} is {value}, expected a probability from 0 to 1")
    if horizon < 1:
        raise ScoreError(f"horizon is {horizon}, expected at least 1 step")
    return max(0.0, 1.0 - horizon * (error + slip))
