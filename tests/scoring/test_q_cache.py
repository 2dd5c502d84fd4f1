from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opc_ros.errors import QCacheError
from opc_ros.scoring.q_cache import EpisodeFacts, QCache, QCacheEntry

KEY = ("e1", "ab" * 32)
FACTS = EpisodeFacts(*KEY, steps=3, robot="left", behaviour_policy="scripted", object_set="cups", started_ns=7)
VALUES = np.array([0.1, 0.2, 0.3], dtype=np.float32)


def test_values_come_back_to_the_last_bit(tmp_path: Path) -> None:
    with QCache(tmp_path / "q.sqlite") as q_cache:
        q_cache.append([QCacheEntry("c1", KEY, VALUES)], [FACTS])
    with QCache(tmp_path / "q.sqlite") as q_cache:
        found = q_cache.read("c1")
        assert list(found) == [KEY]
        np.testing.assert_array_equal(found[KEY], VALUES)
        assert q_cache.facts() == {KEY: FACTS}


@pytest.mark.parametrize("other", ["candidate", "quantity", "scorer version"])
def test_a_value_is_found_only_under_its_whole_key(tmp_path: Path, other: str) -> None:
    with QCache(tmp_path / "q.sqlite") as q_cache:
        q_cache.append([QCacheEntry("c1", KEY, VALUES)], [FACTS])
    version = "next" if other == "scorer version" else "1"
    with QCache(tmp_path / "q.sqlite", scorer_version=version) as q_cache:
        found = q_cache.read("c2" if other == "candidate" else "c1", "greedy" if other == "quantity" else "q")
    assert found == {}


def test_an_episode_whose_file_changed_is_another_episode(tmp_path: Path) -> None:
    with QCache(tmp_path / "q.sqlite") as q_cache:
        q_cache.append([QCacheEntry("c1", KEY, VALUES)], [FACTS])
        assert ("e1", "cd" * 32) not in q_cache.read("c1")


def test_a_row_with_a_flipped_bit_counts_as_missing(tmp_path: Path) -> None:
    with QCache(tmp_path / "q.sqlite") as q_cache:
        q_cache.append([QCacheEntry("c1", KEY, VALUES)], [FACTS])
    connection = sqlite3.connect(tmp_path / "q.sqlite")
    (data,) = connection.execute("SELECT data FROM q_values").fetchone()
    with connection:
        connection.execute("UPDATE q_values SET data = ?", (bytes([data[0] ^ 1]) + data[1:],))
    connection.close()
    with QCache(tmp_path / "q.sqlite") as q_cache:
        assert q_cache.read("c1") == {}
        q_cache.append([QCacheEntry("c1", KEY, VALUES)], [FACTS])
        np.testing.assert_array_equal(q_cache.read("c1")[KEY], VALUES)


def test_a_file_that_is_no_q_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.sqlite").write_bytes(b"not a database, " * 100)
    with pytest.raises(QCacheError, match=r"q\.sqlite: file is not a database; move the file away"):
        QCache(tmp_path / "q.sqlite")


def test_a_q_cache_of_a_later_version_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "q.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(QCacheError, match="Q cache format 99, this opc_ros reads 1"):
        QCache(tmp_path / "q.sqlite")


WRITE_FOREVER = """
import sys
import numpy as np
from opc_ros.scoring.q_cache import EpisodeFacts, QCacheEntry, QCache
with QCache(sys.argv[1]) as q_cache:
    for index in range(10**9):
        key = (f"e{index}", "ab" * 32)
        values = np.full(20, index, dtype=np.float32)
        facts = EpisodeFacts(*key, 20, "left", "p", "o", 0)
        q_cache.append([QCacheEntry(c, key, values) for c in ("c1", "c2")], [facts])
        print(index, flush=True)
"""


def test_kill_9_in_the_middle_loses_nothing_that_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "q.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    last = -1
    for line in writer.stdout:
        last = int(line)
        if last >= 50:
            os.kill(writer.pid, signal.SIGKILL)
            break
    said = [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    writer.wait()
    last = max([last, *said])
    with QCache(path) as q_cache:
        first, second = q_cache.read("c1"), q_cache.read("c2")
        assert first.keys() == second.keys()  # a batch is there completely or not at all
        for index in range(last + 1):
            np.testing.assert_array_equal(first[f"e{index}", "ab" * 32], np.full(20, index))
        q_cache.append([QCacheEntry("c3", KEY, VALUES)], [FACTS])


def test_a_row_edited_with_a_right_checksum_is_not_believed_without_the_scorers_key(tmp_path: Path) -> None:
    """Somebody who can write q.sqlite, without the key: a better Q, the seal of another row, or a row of their own."""
    import zlib
    from contextlib import closing

    path, key = tmp_path / "q.sqlite", b"k" * 32
    facts = [EpisodeFacts(name, "f" * 64, 2, "arm1", "noisy", "", 0) for name in ("e1", "e2")]
    true = np.array([0.1, 0.2], dtype=np.float32)
    better = np.array([0.9, 0.9], dtype="<f4").tobytes()

    def write_true() -> None:
        path.unlink(missing_ok=True)
        with QCache(path, seal_key=key) as cache:
            entries = [QCacheEntry("c1", ("e1", "f" * 64), true), QCacheEntry("c1", ("e2", "f" * 64), true + 1)]
            cache.append(entries, facts)

    for statement, values in (
        ("UPDATE q_values SET data = ?, crc = ? WHERE episode = 1", (better, zlib.crc32(better))),
        ("UPDATE q_values SET data = ? WHERE episode = 1", (better,)),
        ("UPDATE q_values SET (data, crc) = (SELECT data, crc FROM q_values WHERE episode = 2) WHERE episode = 1", ()),
    ):
        write_true()
        with closing(sqlite3.connect(path)) as database, database:
            assert database.execute(statement, values).rowcount == 1
        with QCache(path, seal_key=key) as cache:
            assert set(cache.read("c1")) == {("e2", "f" * 64)}  # the edited one is computed again
