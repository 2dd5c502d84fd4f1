"""The scorer's signature on a ranking: the gate accepts no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from opc_ros.deployment.dsse import from_text, is_authentic, payload_type, to_text
from opc_ros.deployment.keys import TextSigner
from opc_ros.deployment.people import People, Role
from opc_ros.deployment.permit import open_document, sign_document
from opc_ros.deployment.signing import load_machine_key
from opc_ros.errors import DeploymentError
from opc_ros.ranking import Ranking

ENVELOPE_NAME = "ranking.dsse.json"
SCORER: Role = "scorer"
KIND = "ranking"


@dataclass(frozen=True, slots=True)
class RankingSeal:
    """What the scorer signs; the id is the sha256 of the whole ranking: snapshot, metric, field and Q digest."""

    ranking_id: str
    snapshot_id: str
    metric: str
    q_digest: str
    candidates: int  # in the registry when it was scored, ranked or left out
    signed_ns: int


@dataclass(frozen=True, slots=True)
class _Payload:
    format: int
    content: RankingSeal


def sign_ranking(ranking: Ranking, signer: TextSigner, now_ns: int) -> str:
    """Sign a ranking of the whole registry as the scorer."""
    count = len(ranking.candidates) + len(ranking.left_out)
    seal = RankingSeal(ranking.ranking_id, ranking.snapshot_id, ranking.metric, ranking.q_digest, count, now_ns)
    return to_text(sign_document(KIND, asdict(seal), signer))


def check_ranking(ranking: Ranking, envelope: str, people: People) -> RankingSeal:
    """The seal, if a known scorer signed exactly this ranking."""
    signed = from_text(envelope)
    keys = people.keys_of(SCORER)
    if not keys:
        raise DeploymentError("no scorer is known: `opc keys create KEYS --for scorer` makes its key known")
    if signed.payload_type != payload_type(KIND) or not any(is_authentic(signed, key_id, keys) for key_id in keys):
        raise DeploymentError(f"ranking {ranking.ranking_id[:12]}: is not signed by a scorer that is known here")
    seal: RankingSeal = open_document(signed, keys, KIND, _Payload).content
    if seal.ranking_id != ranking.ranking_id:
        raise DeploymentError(
            f"ranking {ranking.ranking_id[:12]}: was changed after the scorer signed it as {seal.ranking_id[:12]}"
        )
    return seal


def ranking_signer(keys: Path | None, now: Callable[[], int]) -> Callable[[Ranking], str] | None:
    """A function that signs rankings with the scorer's key in this folder; None if there is no key."""
    signer = load_machine_key(keys, SCORER) if keys is not None else None
    return (lambda ranking: sign_ranking(ranking, signer, now())) if signer is not None else None
