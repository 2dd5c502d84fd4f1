"""Whether candidates keep their order when computed in reduced precision: tried on a part of the set."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.episode import Episode
from opc_ros.errors import ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.metric import Answers
from opc_ros.scoring.metrics import score_without
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import EpisodeRef, EpisodeSource

TRIED = 100  # episodes of each outcome, or as many as there are


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An engine that computes with one precision, and where its Q values are kept."""

    engine: Engine
    q_cache: QCache


def refuse_other_order(
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    exact: Arithmetic,
    coarse: Arithmetic,
    *,
    metric: str,
    prior: float,
    trained_on: Mapping[str, Collection[str]],
) -> None:
    """Score a part of the set with both; raise an error that names two candidates if any change places."""
    part = PartOfSource(source, choose_part(source.refs))
    orders = [_order(part, candidates, each, metric, prior, trained_on) for each in (exact, coarse)]
    if orders[0] == orders[1]:
        return
    where = f"on {len(part.refs)} of {len(source.refs)} episodes"
    missing = set(orders[0]) ^ set(orders[1])
    if missing:
        raise ScoreError(f"{where} reduced precision does not score {min(missing)} as float32 does: use float32")
    before, after = next(pair for pair in zip(*orders, strict=True) if pair[0] != pair[1])
    raise ScoreError(
        f"{where} reduced precision changes the order of candidates, first of {before} and {after}: use float32"
    )


def choose_part(refs: Sequence[EpisodeRef]) -> tuple[EpisodeRef, ...]:
    """Some episodes of each outcome, spread evenly over the set."""
    chosen: set[int] = set()
    for outcome in (False, True):
        those = np.flatnonzero([ref.is_success is outcome for ref in refs])
        if those.size:
            chosen |= set(those[np.linspace(0, those.size - 1, min(TRIED, those.size)).astype(int)].tolist())
    return tuple(refs[index] for index in sorted(chosen))


class PartOfSource:
    """Some episodes of a set."""

    def __init__(self, whole: EpisodeSource, refs: tuple[EpisodeRef, ...]) -> None:
        self._whole, self._refs = whole, refs

    @property
    def snapshot_id(self) -> str:
        return self._whole.snapshot_id

    @property
    def refs(self) -> tuple[EpisodeRef, ...]:
        return self._refs

    def read(self, ref: EpisodeRef) -> Episode:
        return self._whole.read(ref)


def _order(
    part: EpisodeSource,
    candidates: Sequence[Candidate],
    arithmetic: Arithmetic,
    metric: str,
    prior: float,
    trained_on: Mapping[str, Collection[str]],
) -> list[str]:
    """Names from best to worst; ties by id, as in rankings."""
    scored = score_candidates(part, candidates, arithmetic.q_cache, arithmetic.engine, trained_on=trained_on)
    own = scored.own if scored.own is not None else np.zeros((len(scored.candidates), len(scored.refs)), dtype=bool)
    found = [
        (-score_without(metric, Answers(q, scored.lengths, scored.success), row, prior=prior), candidate.id)
        for candidate, q, row in zip(scored.candidates, scored.q, own, strict=True)
    ]
    names = {candidate.id: candidate.name for candidate in candidates}
    return [names[candidate_id] for _, candidate_id in sorted(found)]
