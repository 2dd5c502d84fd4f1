"""Candidates with hand-set weights, so that what they do in Pong is known."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from opc_ros.experiments.pong.learner import ARCHITECTURE, INPUT, PARAMETERS
from opc_ros.policies.action_search import ChoiceSearch
from opc_ros.policies.architectures import build_network
from opc_ros.policies.architectures.region_moments import RegionMoments
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.policies.weights import save_weights

BALL_BELOW_PADDLE = 17  # the features: 5 presences, 5 rows, 5 columns, then row distances of pairs 01 02 03


def make_follower(
    folder: Path, name: str = "follower", *, gain: float = 1.0, offset: float = 0.0, family: str = "DQN"
) -> Candidate:
    """Goes where the ball is (gain 1) or where it is not (gain -1): Q of down is max(0, d), of up max(0, -d).

    d is how far the ball is below the paddle; with an offset the paddle hits it with its edge, which wins more points.
    """
    network = build_network(ARCHITECTURE, INPUT, PARAMETERS)
    assert isinstance(network, RegionMoments)
    first, second, last = (network.judge[index] for index in (0, 2, 4))
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        first.weight[0, BALL_BELOW_PADDLE] = gain
        first.weight[1, BALL_BELOW_PADDLE] = -gain
        first.bias[0], first.bias[1] = -offset, offset
        second.weight[0, 0] = second.weight[1, 1] = 1.0
        last.weight[2, 0] = last.weight[1, 1] = 1.0
        last.bias[0] = 0.3  # stay while the ball is about as high as the paddle
    manifest = CandidateManifest(
        format_version=FORMAT_VERSION,
        name=name,
        artifact="weights.safetensors",
        format="safetensors",
        input=INPUT,
        architecture=ARCHITECTURE,
        hyper_parameters=PARAMETERS,
        task="pong",
        action_search=ChoiceSearch(),
        provenance=Provenance(family=family, step=1),
    )
    return write_candidate(folder / name, manifest, save_weights(network))
