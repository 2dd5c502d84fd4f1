"""A signed checkpoint of an audit log: how many lines it has, and the root of the tree over all of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from opc_ros.deployment.dsse import from_text, to_text
from opc_ros.deployment.keys import TextSigner, TrustedKeys
from opc_ros.deployment.merkle import MerkleTree
from opc_ros.deployment.permit import open_document, sign_document

KIND = "checkpoint"


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The part that is signed."""

    origin: str  # key id of the scheduler that owns the log
    entries: int
    root: str
    signed_ns: int


@dataclass(frozen=True, slots=True)
class _Payload:
    format: int
    content: TreeHead


def sign_checkpoint(tree: MerkleTree, signer: TextSigner, now_ns: int) -> str:
    head = TreeHead(signer.key_id, tree.leaves, tree.root(), now_ns)
    return to_text(sign_document(KIND, dataclasses.asdict(head), signer))


def open_checkpoint(envelope: str, keys: TrustedKeys) -> TreeHead:
    """The head inside, if a trusted key signed it."""
    head: TreeHead = open_document(from_text(envelope), keys, KIND, _Payload).content
    return head
