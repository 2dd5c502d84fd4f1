"""How long it takes to check an audit log, and to prove that one line is in it.

python -m tests.benchmarks.bench_audit --entries 1000000
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.keys import create_keys
from opc_ros.deployment.merkle import MerkleTree, check_inclusion

PROOFS = 200
GOAL_S = 60.0
WRITTEN_AT_ONCE = 10_000  # so that only the memory for checking is counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    entries = parser.parse_args().entries
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signer = create_keys(folder / "keys")
        log = AuditLog(folder / "audit.jsonl", signer)
        for first in range(0, entries, WRITTEN_AT_ONCE):
            numbers = range(first, min(first + WRITTEN_AT_ONCE, entries))
            with log.exclusive() as (_, append):
                append([("episode", {"episode_id": f"lease-{n}", "success": n % 3 == 0}, n) for n in numbers])
        begun_s, busy_s = time.perf_counter(), _processor_s()
        report = check_audit_log(log.path, {signer.key_id: signer.private_key.public_key()})
        checked_s, busy_s = time.perf_counter() - begun_s, _processor_s() - busy_s
        assert report.is_whole
        most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        begun_s = time.perf_counter()
        tree = MerkleTree(log.path)
        built_s = time.perf_counter() - begun_s
        lines = log.path.read_bytes().split(b"\n")
        root, took_s = tree.root(), []
        for index in np.random.default_rng(0).integers(entries, size=PROOFS).tolist():
            begun_s = time.perf_counter()
            proof = tree.prove(index)
            took_s.append(time.perf_counter() - begun_s)
            assert check_inclusion(lines[index], index, entries, proof, root)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    million_s, cores = 1e6 * busy_s / entries, len(os.sched_getaffinity(0))
    print(
        f"{entries:,} entries checked, each signature: {checked_s:.1f} s by the clock, {busy_s:.1f} s of processor "
        f"time: {million_s:.0f} s a million, {million_s / min(cores, 2):.0f} s on two cores that do nothing else, "
        f"{million_s / min(cores, 2) / GOAL_S:.2f} of the goal ({GOAL_S:g} s)"
    )
    print(f"verifier: {'libsodium' if find_spec('nacl') else 'OpenSSL'}; largest memory so far {most_mb:.0f} MB")
    print(f"tree built: {built_s:.2f} s; a proof: median {1e3 * float(np.median(took_s)):.2f} ms")


def _processor_s() -> float:
    """Memory of this process and of all its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


if __name__ == "__main__":
    main()
