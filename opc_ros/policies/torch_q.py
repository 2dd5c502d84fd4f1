"""Q functions in torch: named architectures in two halves, exported programs in one piece."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from opc_ros.errors import CandidateError
from opc_ros.policies.architectures import Code, QNetwork
from opc_ros.policies.architectures.answering import answer_each
from opc_ros.policies.architectures.cpu_layout import lay_out_for_cpu
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.exported import network_arguments
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations


class NetworkQFunction:
    """A named architecture; it encodes each image once, however many actions are compared."""

    def __init__(self, network: QNetwork, device: str) -> None:
        fuse_normalisation(network)
        if device == "cpu":
            lay_out_for_cpu(network)
        self._network = network.to(device).eval()
        self._device = device

    @property
    def network(self) -> QNetwork:
        return self._network

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        (values,) = ask_together([self], observations, actions)
        return np.asarray(values)

    def arithmetic(self) -> AbstractContextManager[object]:
        """What it is computed within."""
        return nullcontext()

    def encode(self, observations: Observations) -> Code:
        with torch.inference_mode(), self.arithmetic():
            return self._network.encode(self.move(observations.images), self.move(observations.tools))

    def head(self, code: Code, actions: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), self.arithmetic():
            return np.asarray(self._network.head(code, self.move(actions)).cpu().numpy())

    def move(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)


def ask_together(asked: Sequence[NetworkQFunction], observations: Observations, actions: np.ndarray) -> np.ndarray:
    """Q (M, B) of one action per state under each of the networks; each value is as if its network were alone."""
    given = [asked[0].move(values) for values in (observations.images, observations.tools, actions)]
    with torch.inference_mode(), asked[0].arithmetic():
        return np.asarray(answer_each([one.network for one in asked], *given).cpu().numpy())


class ProgramQFunction:
    """An exported torch program: images, tools and actions in, one number for each row out."""

    def __init__(self, program: Callable[[list[np.ndarray]], np.ndarray], spec: InputSpec) -> None:
        self._program = program
        self._spec = spec

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        return self._program(network_arguments(self._spec, observations, actions))


def fuse_normalisation(network: nn.Module) -> None:
    """Fold each batch normalisation into the convolution before it: same function, fewer passes over memory."""
    for block in network.modules():
        if not isinstance(block, nn.Sequential):
            continue
        for index in range(len(block) - 1):
            first, second = block[index], block[index + 1]
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                block[index] = fuse_conv_bn_eval(first.eval(), second.eval())
                block[index + 1] = nn.Identity()


def load_program(
    candidate: Candidate, read: Callable[[io.BytesIO], Any], where: str, device: str
) -> Callable[[list[np.ndarray]], np.ndarray]:
    """A function from arrays to an array that runs the candidate's program; `read` is torch's reader for its format."""
    try:
        program = read(io.BytesIO(candidate.artifact_bytes))
    except Exception as error:  # torch passes on whatever its reader raised
        reason = " ".join(str(error).split())[:300]
        raise CandidateError(f"{where}: torch cannot load it as {candidate.manifest.format}: {reason}") from error

    def run(arguments: list[np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            found = program(*(torch.from_numpy(argument).to(device) for argument in arguments))
        return np.asarray(found.detach().cpu().numpy())

    return run
