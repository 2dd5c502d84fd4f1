"""Reads the size of a JPEG or PNG image from its first bytes, without decoding it."""

from __future__ import annotations

import struct

from opc_ros.errors import EpisodeError

MAX_PIXELS = 4096 * 4096  # 50 MB decoded; a PNG of a few kB can claim a thousand times that

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_STANDALONE = {0x01, *range(0xD0, 0xD9)}  # markers without a length
_NOT_FRAMES = {0xC4, 0xC8, 0xCC}  # among 0xC0 to 0xCF: tables, not the frame's header


def read_image_size(data: bytes) -> tuple[int, int]:
    """Width and height from the header; raises for anything but a JPEG or PNG image."""
    try:
        if data.startswith(_PNG) and data[12:16] == b"IHDR":
            width, height = struct.unpack(">II", data[16:24])
            return int(width), int(height)
        if data.startswith(_JPEG):
            return _read_jpeg_size(data)
    except (struct.error, IndexError):
        pass
    raise EpisodeError(f"{len(data)} bytes are no JPEG or PNG image")


def refuse_large_image(data: bytes, where: str) -> None:
    """Refuse an image that would fill the memory when decoded."""
    try:
        width, height = read_image_size(data)
    except EpisodeError as error:
        raise EpisodeError(f"{where}: {error}") from error
    if not 0 < width * height <= MAX_PIXELS:
        raise EpisodeError(f"{where}: {width}x{height} pixels, expected at most {MAX_PIXELS}")


def _read_jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise IndexError
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker in _STANDALONE:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return int(width), int(height)
        else:
            at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
