"""How exported networks are called: which inputs, in which layout and scale."""

from __future__ import annotations

import numpy as np

from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.q_function import Observations


def network_arguments(spec: InputSpec, observations: Observations, actions: np.ndarray) -> list[np.ndarray]:
    """What the network is given, in the order the manifest names."""
    images = observations.images
    if spec.image_layout == "bchw":
        images = images.transpose(0, 3, 1, 2)
    if spec.image_values == "unit":
        images = images.astype(np.float32) / np.float32(255)
    if spec.action_scale is not None:
        actions = actions * np.asarray(spec.action_scale, dtype=np.float32)
    given = {"image": images, "tool": observations.tools, "action": actions.astype(np.float32, copy=False)}
    return [np.ascontiguousarray(given[name]) for name in spec.arguments]
