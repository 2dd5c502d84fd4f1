"""A Merkle tree over the lines of an audit log, after RFC 6962: a short proof that one line is among a million.

The nodes are kept in a file beside the log, 32 bytes each, every node right after the last leaf below it. The tree
therefore grows by appending, and the position of any node can be computed. The file is a cache and is rebuilt from the
log if it is missing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from opc_ros.errors import AuditLogDamaged

SIZE = 32
_BLOCK = 1 << 22


def leaf_hash(line: bytes) -> bytes:
    """Hash of one line without its newline."""
    return hashlib.sha256(b"\0" + line).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def tree_path(log: Path) -> Path:
    return log.with_name(f"{log.name}.tree")


def count_nodes(leaves: int) -> int:
    """How many nodes are complete with this many leaves."""
    return 2 * leaves - leaves.bit_count()


class MerkleTree:
    """The tree of one audit log, as long as the log was when it was opened."""

    def __init__(self, log: Path, *, is_rebuilt: bool = False) -> None:
        """With `is_rebuilt`, hash every line again instead of trusting the cache."""
        self._path = tree_path(log)
        if is_rebuilt:
            self._path.unlink(missing_ok=True)
        self.leaves = self._extend(log)

    def root(self, leaves: int | None = None) -> str:
        """The hash over the first `leaves` lines, in hexadecimal."""
        return self._range(0, self.leaves if leaves is None else leaves).hex()

    def prove(self, index: int, leaves: int | None = None) -> tuple[str, ...]:
        """The sibling hashes from line `index` (from 0) up to the root over the first `leaves` lines."""
        leaves = self.leaves if leaves is None else leaves
        if not 0 <= index < leaves <= self.leaves:
            raise AuditLogDamaged(f"{self._path}: line {index} of {leaves}, the tree has {self.leaves}")
        return tuple(node.hex() for node in self._path_of(index, 0, leaves))

    def _path_of(self, index: int, start: int, stop: int) -> list[bytes]:
        if stop - start == 1:
            return []
        middle = start + _half(stop - start)
        if index < middle:
            return [*self._path_of(index, start, middle), self._range(middle, stop)]
        return [*self._path_of(index, middle, stop), self._range(start, middle)]

    def _range(self, start: int, stop: int) -> bytes:
        """The root over lines `start` to `stop`; where their number is a power of two, that is one node of the file."""
        count = stop - start
        if count == 0:
            return hashlib.sha256(b"").digest()
        if count & (count - 1) == 0:
            return self._node(stop - 1, count.bit_length() - 1)
        middle = start + _half(count)
        return node_hash(self._range(start, middle), self._range(middle, stop))

    def _node(self, last: int, level: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek((count_nodes(last) + level) * SIZE)
            return file.read(SIZE)

    def _extend(self, log: Path) -> int:
        """Append the nodes of every complete line that is not in the tree yet, and return the number of leaves."""
        try:
            have = self._path.stat().st_size // SIZE if self._path.exists() else 0
            leaves, offset, peaks = self._read_end(have, log)
            with log.open("rb") as source, self._path.open("r+b" if self._path.exists() else "wb") as target:
                source.seek(offset)
                target.truncate(count_nodes(leaves) * SIZE)
                target.seek(0, os.SEEK_END)
                rest = b""
                while block := source.read(_BLOCK):
                    *lines, rest = (rest + block).split(b"\n")
                    nodes = []
                    for line in lines:
                        node = leaf_hash(line)
                        nodes.append(node)
                        number, leaves = leaves, leaves + 1
                        while number & 1:
                            node = node_hash(peaks.pop(), node)
                            nodes.append(node)
                            number >>= 1
                        peaks.append(node)
                        offset += len(line) + 1
                    target.write(b"".join(nodes))
        except OSError as error:
            raise AuditLogDamaged(f"{self._path}: {error.strerror or error}") from error
        self._write_place(leaves, offset)
        return leaves

    def _read_end(self, nodes: int, log: Path) -> tuple[int, int, list[bytes]]:
        """Number of leaves, the bytes of the log they cover, and the roots of the complete subtrees, largest first."""
        try:
            leaves, offset = (int(word) for word in self._place().read_text().split())
        except (OSError, ValueError):
            return 0, 0, []
        if leaves < 0 or count_nodes(leaves) > nodes or offset > log.stat().st_size:
            return 0, 0, []
        peaks, start = [], 0
        for level in reversed(range(leaves.bit_length())):
            if leaves >> level & 1:
                start += 1 << level
                peaks.append(self._node(start - 1, level))
        return leaves, offset, peaks

    def _write_place(self, leaves: int, offset: int) -> None:
        self._place().write_text(f"{leaves} {offset}\n")

    def _place(self) -> Path:
        return self._path.with_name(f"{self._path.name}.place")


def check_inclusion(line: bytes, index: int, leaves: int, proof: Sequence[str], root: str) -> bool:
    """Whether a line is number `index` (from 0) of the lines below a root; RFC 9162, 2.1.3.2."""
    if not 0 <= index < leaves:
        return False
    node, position, last = leaf_hash(line), index, leaves - 1
    try:
        for sibling in map(bytes.fromhex, proof):
            if last == 0:
                return False
            if position & 1 or position == last:
                node = node_hash(sibling, node)
                while position & 1 == 0 and position:
                    position, last = position >> 1, last >> 1
            else:
                node = node_hash(node, sibling)
            position, last = position >> 1, last >> 1
    except ValueError:
        return False
    return last == 0 and node.hex() == root


def _half(count: int) -> int:
    """The largest power of two below a number above 1."""
    return 1 << (count - 1).bit_length() - 1
