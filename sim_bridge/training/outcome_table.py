"""Many trials' outcomes in one Parquet file, for shipping; measuring appends to files of one trial each."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from opc_ros.durable import replace_file
from opc_ros.errors import EvaluationError
from sim_bridge.training.true_success import TWIN_REVISION, OutcomeFile, Trial, read_outcome_file

SUFFIX = ".parquet"
Outcomes = dict[int, bool]  # by seed
_REVISION = "twin_revision"
_HEADER = ("candidate", "world", "world_digest", "image_size", "max_steps", "format_version", _REVISION)
_COLUMNS = (*_HEADER, "seed", "is_success")


def is_table(path: Path) -> bool:
    return path.suffix == SUFFIX


class OutcomeTable:
    """The content of one Parquet file; read once, looked up by trial."""

    def __init__(self, path: Path) -> None:
        self._by_header = _read(path)

    def outcomes(self, trial: Trial) -> Outcomes:
        """Outcomes of one revision of the twin, never of two: the one with the most, or the newest of equals."""
        return self._best(trial)[1]

    def revision(self, trial: Trial) -> int:
        """Which revision of the twin these outcomes come from; 0 if there are none."""
        return self._best(trial)[0]

    def _best(self, trial: Trial) -> tuple[int, Outcomes]:
        newest_first = [dataclasses.replace(trial, twin_revision=number) for number in range(TWIN_REVISION, 0, -1)]
        found = [(one.twin_revision, self._by_header.get(_key(one.header()), {})) for one in newest_first]
        revision, outcomes = max(found, key=lambda one: len(one[1]))  # max returns the first of equals
        return (revision, outcomes) if outcomes else (0, {})


def open_outcomes(cache: Path, trial: Trial, table: OutcomeTable | None) -> Outcomes:
    """A trial's outcomes from the table, or from its file in the cache."""
    return table.outcomes(trial) if table is not None else OutcomeFile(cache, trial).outcomes


def pack_outcomes(folder: Path, path: Path) -> int:
    """Merge a folder's outcome files into the table at `path`, which may be new; return how many episodes it holds."""
    merged = _read(path) if path.exists() else {}
    for file in sorted(folder.glob("*.txt")):
        header, outcomes = read_outcome_file(file)
        merged.setdefault(_key(json.loads(header)), {}).update(outcomes)
    _write(path, merged)
    return sum(map(len, merged.values()))


def _key(header: Mapping[str, object]) -> str:
    """Files and tables from before revisions were counted do not name theirs: it was the first."""
    return json.dumps({name: header.get(name, 1 if name == _REVISION else None) for name in _HEADER}, sort_keys=True)


def _read(path: Path) -> dict[str, Outcomes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pydict()
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise EvaluationError(f"{path}: cannot be read as a table of outcomes: {reason}") from error
    found: dict[str, Outcomes] = {}
    if "seed" in rows:
        rows.setdefault(_REVISION, [1] * len(rows["seed"]))
    if missing := [name for name in _COLUMNS if name not in rows]:
        raise EvaluationError(f"{path}: column {missing[0]} is missing, expected {', '.join(_COLUMNS)}")
    for values in zip(*(rows[name] for name in _COLUMNS), strict=True):
        *header, seed, is_success = values
        found.setdefault(_key(dict(zip(_HEADER, header, strict=True))), {})[int(seed)] = bool(is_success)
    return found


def _write(path: Path, merged: Mapping[str, Outcomes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for key, outcomes in sorted(merged.items()):
        header = json.loads(key)
        for seed, is_success in sorted(outcomes.items()):
            for name in _HEADER:
                columns[name].append(header[name])
            columns["seed"].append(seed)
            columns["is_success"].append(is_success)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    replace_file(path, sink.getvalue().to_pybytes())
