"""torch.export: a `.pt2` file, which can hold pickles."""

from __future__ import annotations

import io
from typing import Any

from opc_ros.policies.program_format import make_program_format


def _open(artifact: io.BytesIO, device: str) -> Any:
    import torch

    return torch.export.load(artifact).module()


FORMAT = make_program_format("torch_export", _open)
