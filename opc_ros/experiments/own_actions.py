"""Agreement and the critic, applied to actions that candidates would have taken in some recorded episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.agreement import AgreementJudge
from opc_ros.scoring.judging import fit_critic_to
from opc_ros.scoring.recorded_set import RecordedSet


def judge_own(
    everything: RecordedSet,
    asked: np.ndarray,
    own: np.ndarray,
    candidates: Sequence[Candidate],
) -> tuple[np.ndarray, np.ndarray]:
    """Agreement and the critic's rating of own actions (C, M, A) in these episodes, (C, M) each."""
    camera = next((c.manifest.input.camera for c in candidates if c.manifest.input.camera is not None), None)
    critic = fit_critic_to(everything, camera)
    agreement = AgreementJudge(everything)
    rows = np.repeat(np.isin(np.arange(everything.lengths.size), asked), everything.lengths)
    agreed, rated = [], []
    for actions in own:
        filled = everything.actions.copy()
        filled[rows] = actions
        agreed.append(agreement.rate(filled)[rows])
        rated.append(critic.rate(filled)[rows])
    return np.stack(agreed).astype(np.float64), np.stack(rated).astype(np.float64)
