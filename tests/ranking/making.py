"""Scored sets with made-up Q values: the better a candidate, the further apart successes and failures lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opc_ros.policies.candidate import Candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.ranking import Ranking, rank_candidates
from opc_ros.ranking.ranking import Scope
from opc_ros.reporting.report import KnownSuccess
from opc_ros.scoring.q_cache import EpisodeFacts
from opc_ros.scoring.scorer import ScoredSet
from opc_ros.scoring.search_look import SearchLook
from opc_ros.scoring.source import EpisodeRef

FAMILIES = ("Sim", "Randomized Sim", "Heavy Randomized Sim", "Randomized Sim + Real 5k", "RCAN", "RCAN + Dropout")
DAY_NS = 86_400 * 10**9


def make_scored(
    candidates: int = 15, episodes: int = 400, *, seed: int = 0
) -> tuple[ScoredSet, dict[str, KnownSuccess]]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 21, episodes)
    success = rng.random(episodes) < 0.4
    success[:2] = (True, False)
    is_positive = np.repeat(success, lengths)
    made, rows, known = [], [], {}
    for index in range(candidates):
        skill = float(rng.random())
        hidden = rng.normal(0, 1, is_positive.size) + np.repeat(rng.normal(0, 1, episodes), lengths)
        rows.append(1 / (1 + np.exp(-(hidden + 2 * skill * is_positive - 0.5))))
        made.append(_candidate(index, candidates))
        known[made[-1].id] = KnownSuccess(float(np.clip(0.15 + 0.75 * skill + rng.normal(0, 0.05), 0, 1)), 102)
    facts = tuple(
        EpisodeFacts(
            id=f"e{index:05d}",
            file_sha256=f"{index:064x}",
            steps=int(length),
            robot=f"kuka{index % 7 + 1}",
            behaviour_policy=("scripted", "qt-opt-28")[index % 2],
            object_set=("train", "test")[index % 3 == 0],
            started_ns=1_790_000_000 * 10**9 + index * DAY_NS // 40,
        )
        for index, length in enumerate(lengths)
    )
    return (
        ScoredSet(
            snapshot_id="5e" * 32,
            candidates=tuple(made),
            refs=tuple(
                EpisodeRef(fact.id, fact.file_sha256, bool(ok), fact.robot)
                for fact, ok in zip(facts, success, strict=True)
            ),
            facts=facts,
            lengths=lengths,
            success=success,
            q=np.array(rows, dtype=np.float32),
            q_greedy=None,
        ),
        known,
    )


def rank(scored: ScoredSet, *, resamples: int = 200, seed: int = 0, scope: Scope = "selection") -> Ranking:
    return rank_candidates(
        {candidate.id: row for candidate, row in zip(scored.candidates, scored.q, strict=True)},
        {candidate.id: candidate.name for candidate in scored.candidates},
        scored.lengths,
        scored.success,
        metric="soft_opc",
        resamples=resamples,
        seed=seed,
        snapshot_id=scored.snapshot_id,
        scope=scope,
        searches={candidate.id: SearchLook(is_standard=True) for candidate in scored.candidates},
    )


def _candidate(index: int, count: int) -> Candidate:
    family = FAMILIES[index % len(FAMILIES)]
    manifest = CandidateManifest(
        format_version=FORMAT_VERSION,
        name=f"{family.lower().replace(' ', '-')}-{index:03d}",
        artifact="weights.safetensors",
        format="safetensors",
        input=InputSpec(96, 96),
        architecture="whole_image",
        provenance=Provenance(
            family=family,
            training_run=f"run-{index % 3}" if count > 3 else "",
            step=index // 3 * 20_000 + 20_000 if count > 3 else None,
            seed=index,
            data_snapshot="d4" * 32,
            git_revision="c0ffee" * 6,
        ),
    )
    return Candidate(
        id=f"{index * 7919 + 1:x}".rjust(64, "a"),
        manifest=manifest,
        manifest_bytes=b"",
        artifact_bytes=b"",
        folder=Path(),
    )
