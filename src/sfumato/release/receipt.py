"""The receipt of a release: what it cost, under which policy and data, and where the ledger wrote it down."""

import json
from dataclasses import dataclass

from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import MalformedEvent
from sfumato.exact import rational

TIMING = "none"
"""The timing mode: how long an answer takes is not padded."""

_FIELDS = ("bits", "delta", "epsilon", "head", "id", "policy", "sequence", "timing", "version")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What proves a release. Nothing in it depends on the data beyond the release itself."""

    id: str
    """A random id."""
    policy: str
    """The policy's hash."""
    version: str
    """The data's version: a counter or random id, never a digest of its content."""
    loss: PrivacyLoss
    sequence: int | None = None
    """The place in the ledger; None for an answer that was free."""
    head: str | None = None
    """The ledger's hash chain up to that place."""
    bits: int = 0
    """How many random bits noise of this shape takes: see `publish`."""
    timing: str = TIMING


def receipt_to_json(receipt: Receipt) -> str:
    """Return the one text of a receipt.

    >>> receipt_to_json(Receipt("r1", "p", "1", PrivacyLoss("1/2")))[:60]
    '{"bits":0,"delta":"0","epsilon":"1/2","head":null,"id":"r1",'
    """
    data = {
        "id": receipt.id,
        "policy": receipt.policy,
        "version": receipt.version,
        "epsilon": str(receipt.loss.epsilon),
        "delta": str(receipt.loss.delta),
        "sequence": receipt.sequence,
        "head": receipt.head,
        "bits": receipt.bits,
        "timing": receipt.timing,
    }
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def receipt_from_json(text: str) -> Receipt:
    """Read back exactly what `receipt_to_json` wrote; any other text is refused."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed() from None
    match data:
        case {
            "id": str(name),
            "policy": str(policy),
            "version": str(version),
            "epsilon": str(epsilon),
            "delta": str(delta),
            "sequence": (int() | None) as sequence,
            "head": (str() | None) as head,
            "bits": int(bits),
            "timing": str(timing),
        } if tuple(sorted(data)) == _FIELDS and not isinstance(sequence, bool) and not isinstance(bits, bool):
            loss = PrivacyLoss(rational(epsilon, "epsilon"), rational(delta, "delta"))
            receipt = Receipt(name, policy, version, loss, sequence, head, bits, timing)
            if receipt_to_json(receipt) == text:
                return receipt
    raise _malformed()


def _malformed() -> MalformedEvent:
    return MalformedEvent(
        "A stored receipt does not read back.",
        "It is not the text that was written when the answer was released.",
        "Restore the ledger from a copy.",
    )
