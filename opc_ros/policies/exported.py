"""How exported networks are called: which inputs, in which layout and scale."""

from __future__ import annotations

import numpy as np

from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations


def network_arguments(
    spec: InputSpec, observations: Observations, actions: np.ndarray | None = None
) -> list[np.ndarray]:
    """The network's inputs in the order of the manifest; a network that answers actions takes no actions."""
    images = observations.images
    if spec.image_layout == "bchw":
        images = images.transpose(0, 3, 1, 2)
    if spec.image_values == "unit":
        images = images.astype(np.float32) / np.float32(255)
    given = {"image": images, "tool": observations.tools}
    if actions is not None:
        scaled = actions if spec.action_scale is None else actions * np.asarray(spec.action_scale, dtype=np.float32)
        given["action"] = scaled.astype(np.float32, copy=False)
    return [np.ascontiguousarray(given[name]) for name in spec.arguments]
