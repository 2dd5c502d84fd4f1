"""An image's size is known before it is decoded, and one that would fill the memory is refused."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import pytest

from opc_ros.episode import Frame
from opc_ros.errors import EpisodeError
from opc_ros.image_header import read_image_size


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("size", [(1, 1), (48, 64), (472, 472), (3, 4000)])
def test_sizes_are_those_that_opencv_wrote(suffix: str, size: tuple[int, int]) -> None:
    data = cv2.imencode(suffix, np.zeros((*size, 3), np.uint8))[1].tobytes()
    assert read_image_size(data) == (size[1], size[0])


def make_bomb(side: int) -> bytes:
    """A PNG of black pixels, as small as zlib can make it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


def test_a_small_file_that_decodes_to_gigabytes_is_refused_by_its_header() -> None:
    with pytest.raises(EpisodeError, match="23000x23000 pixels, expected at most 16777216"):
        Frame(1, "png", make_bomb(23_000)).decode()


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\xff\xd8\xff\xc0\x00", b"\x89PNG\r\n\x1a\n", b"\xff\xd8" * 99])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(EpisodeError):
        read_image_size(data)
