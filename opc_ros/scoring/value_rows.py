"""One row of values for each candidate: an array, or a file that is looked at row by row where memory would not do."""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import QCacheError

HELD = 16_000_000  # values of all candidates together, 64 MB; beyond that they go into a file


class ValueRows(Protocol):
    """(C, N), one row for each candidate; arrays of that shape and lists of arrays are rows, too."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, row: Any, /) -> Any: ...


class RowsOnDisk(Sequence[np.ndarray]):
    """Rows in a file without a name, which goes when nobody holds it any more; a row is mapped while it is used."""

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        self.shape = shape  # (C, N, ...)
        self._row_bytes = 4 * int(np.prod(shape[1:], dtype=np.int64))
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def write(self, rows: Iterable[np.ndarray]) -> None:
        """All of them, once."""
        for row in rows:
            self._file.write(np.ascontiguousarray(row, dtype=np.float32).data)
        self._file.flush()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: Any) -> Any:
        index = operator.index(row)
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        mapped = np.memmap(self._file, np.float32, "r", index * self._row_bytes, self.shape[1:])
        return mapped.view(np.ndarray)


def gather_rows(rows: Iterable[np.ndarray], count: int, folder: Path) -> ValueRows:
    """So many rows of one shape, (C, N) or (C, N, A) float32; only one is in memory where all would be too many."""
    each = iter(rows)
    first = next(each, np.empty(0, dtype=np.float32))
    shape = (count, *first.shape)
    if count * first.size <= HELD:
        held = np.empty(shape, dtype=np.float32)
        for place, row in zip(held, chain((first,), each), strict=True) if count else ():
            place[:] = row
        return held
    try:
        kept = RowsOnDisk(folder, shape)
        kept.write(chain((first,), each))
    except OSError as error:
        size = f"{4 * count * first.size / 1e9:.1f} GB"
        raise QCacheError(f"{folder}: cannot hold {size} of values while it ranks: {error.strerror}") from error
    return kept


class RowsById(Mapping[str, np.ndarray]):
    """Rows by candidate id, looked up when they are asked for."""

    def __init__(self, candidate_ids: Iterable[str], rows: ValueRows) -> None:
        self._row_of = {candidate_id: row for row, candidate_id in enumerate(candidate_ids)}
        self._rows = rows

    def __getitem__(self, candidate_id: str) -> np.ndarray:
        found: np.ndarray = self._rows[self._row_of[candidate_id]]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)


class RowsInOrder(Sequence[ArrayLike]):
    """The same in an order of candidates."""

    def __init__(self, by_id: Mapping[str, ArrayLike], order: Sequence[str]) -> None:
        self._by_id = by_id
        self._order = order

    def __getitem__(self, row: Any) -> Any:
        return self._by_id[self._order[row]]

    def __len__(self) -> int:
        return len(self._order)
