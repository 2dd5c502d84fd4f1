"""All formats of candidates: each module of this package that defines FORMAT is one, and is found automatically."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from opc_ros.policies.artifact_format import ArtifactFormat


@cache
def all_formats() -> dict[str, ArtifactFormat]:
    """All formats, by their name in candidate.yaml."""
    found = [importlib.import_module(f"{__name__}.{module.name}").FORMAT for module in pkgutil.iter_modules(__path__)]
    return {each.name: each for each in found}
