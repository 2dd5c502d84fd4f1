"""Writing files: every byte is written, in order, however the kernel splits the writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opc_ros.durable import begin_writing_out, write_out, write_pieces


def test_more_pieces_than_the_kernel_takes_at_once_are_all_written(tmp_path: Path) -> None:
    pieces = [bytes([number % 251]) * (number % 3) for number in range(3000)]
    with (tmp_path / "file").open("wb", buffering=0) as file:
        write_pieces(file.fileno(), pieces)
        begin_writing_out(file.fileno())
        write_out(file.fileno())
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)


def test_what_the_kernel_takes_in_part_is_written_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does on a nearly full disk, or when a signal arrives."""

    def take_five_bytes(descriptor: int, pieces: list[bytes]) -> int:
        return os.write(descriptor, b"".join(pieces)[:5])

    monkeypatch.setattr(os, "writev", take_five_bytes)
    with (tmp_path / "file").open("wb", buffering=0) as file:
        write_pieces(file.fileno(), [b"abc", b"", b"defg", b"hi"])
    assert (tmp_path / "file").read_bytes() == b"abcdefghi"
