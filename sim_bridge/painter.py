"""Gives bodies of one physics client their colours and textures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sim_bridge.randomization import NO_TEXTURE, Surface

_BASE = (-1,)


class Painter:
    """Knows a client's own ids for the textures of a bank."""

    def __init__(self, client: Any, textures: Sequence[Path]) -> None:
        self._client = client
        self._textures = [client.loadTexture(str(path)) for path in textures]

    def paint(self, body: int, surface: Surface, *, links: Iterable[int] = _BASE) -> None:
        """Repaint a body's base, or the links named."""
        texture = self._textures[surface.texture] if surface.texture != NO_TEXTURE else -1
        for link in links:
            self._client.changeVisualShape(body, link, rgbaColor=(*surface.rgb, 1.0), textureUniqueId=texture)
