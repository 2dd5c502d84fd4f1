"""TorchScript: a program of its own."""

from __future__ import annotations

import io
from typing import Any

from opc_ros.policies.program_format import make_program_format


def _open(artifact: io.BytesIO, device: str) -> Any:
    import torch

    return torch.jit.load(artifact, map_location=device).eval()


FORMAT = make_program_format("torchscript", _open)
