"""How long it takes to check an audit log, and to prove that one line is in it.

python -m tests.benchmarks.bench_audit --entries 1000000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.keys import create_keys
from opc_ros.deployment.merkle import MerkleTree, check_inclusion

PROOFS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    entries = parser.parse_args().entries
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signer = create_keys(folder / "keys")
        log = AuditLog(folder / "audit.jsonl", signer)
        with log.exclusive() as (_, append):
            append([("episode", {"episode_id": f"lease-{n}", "success": n % 3 == 0}, n) for n in range(entries)])
        begun_s = time.perf_counter()
        report = check_audit_log(log.path, {signer.key_id: signer.private_key.public_key()})
        checked_s = time.perf_counter() - begun_s
        assert report.is_whole
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
    print(
        f"{entries:,} entries checked, each signature: {checked_s:.1f} s, {1e6 * checked_s / entries:.0f} s a million"
    )
    print(f"tree built: {built_s:.2f} s; a proof: median {1e3 * float(np.median(took_s)):.2f} ms")


if __name__ == "__main__":
    main()
