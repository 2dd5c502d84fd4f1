"""The paper's 15 real-world models: how well their published SoftOPC predicts their published grasp success."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.ranking import Agreement, measure_agreement

PUBLISHED_R_SQUARED = 0.91
PUBLISHED_SPEARMAN = 0.94


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """One row of the paper's table of real-world models."""

    name: str
    soft_opc: float
    success_percent: float  # of real grasps


MODELS = (
    PublishedModel("Sim", 0.056, 16.67),
    PublishedModel("Randomized Sim", 0.072, 36.92),
    PublishedModel("Heavy Randomized Sim", 0.040, 34.90),
    PublishedModel("Randomized Sim + Real (2k)", 0.129, 72.14),
    PublishedModel("Randomized Sim + Real (3k)", 0.141, 73.65),
    PublishedModel("Randomized Sim + Real (4k)", 0.149, 82.92),
    PublishedModel("Randomized Sim + Real (5k)", 0.152, 84.38),
    PublishedModel("RCAN", 0.113, 65.69),
    PublishedModel("RCAN + Real (2k)", 0.156, 86.46),
    PublishedModel("RCAN + Real (3k)", 0.166, 88.34),
    PublishedModel("RCAN + Real (4k)", 0.152, 87.08),
    PublishedModel("RCAN + Real (5k)", 0.159, 90.71),
    PublishedModel("RCAN + Dropout", 0.112, 51.04),
    PublishedModel("RCAN + InputDropout", 0.089, 57.71),
    PublishedModel("RCAN + GradsToGenerator", 0.094, 58.75),
)


def measure_published(safe_percent: float = 50.0) -> Agreement:
    """Agreement of SoftOPC with real grasp success over the 15 models."""
    return measure_agreement(
        [model.soft_opc for model in MODELS],
        [model.success_percent for model in MODELS],
        top_k=(1, 3, 5),
        safe_success=safe_percent,
    )
