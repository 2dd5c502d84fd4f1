"""Networks by name, each built from a plain dictionary of hyper-parameters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from opc_ros.config import parse_config
from opc_ros.errors import CandidateError
from opc_ros.policies.input_spec import InputSpec

Network = TypeVar("Network")


class NamedNetworks(Generic[Network]):
    """Architectures of one kind: the builder of each, and the dataclass of its hyper-parameters."""

    def __init__(self, architectures: Mapping[str, tuple[Any, Any]], *, kind: str) -> None:
        self._architectures = architectures
        self._kind = kind  # for error messages: "a Q function"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._architectures)

    def build(self, architecture: str, spec: InputSpec, parameters: Mapping[str, Any] | None, where: str) -> Network:
        """A network with fresh weights, drawn from torch's current random state."""
        build, parsed = self._find(architecture, where)[0], self._parse(architecture, parameters, where)
        try:
            network: Network = build(spec, parsed)
        except (RuntimeError, ValueError, ZeroDivisionError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise CandidateError(
                f"{where}: {architecture} cannot be built with {dict(parameters or {})}: {reason}"
            ) from error
        return network

    def state(self, architecture: str, parameters: Mapping[str, Any] | None, where: str) -> dict[str, Any]:
        """All hyper-parameters, with defaults written out."""
        parsed = self._parse(architecture, parameters, where)
        stated: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(parsed)))
        return stated

    def _parse(self, architecture: str, parameters: Mapping[str, Any] | None, where: str) -> Any:
        kind = self._find(architecture, where)[1]
        return parse_config(dict(parameters or {}), kind, where=f"{where}: hyper_parameters")

    def _find(self, architecture: str, where: str) -> tuple[Any, Any]:
        if architecture not in self._architectures:
            expected = ", ".join(self.names)
            raise CandidateError(f"{where}: architecture {architecture!r}, expected one of {expected} for {self._kind}")
        return self._architectures[architecture]
