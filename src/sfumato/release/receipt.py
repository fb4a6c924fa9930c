"""The receipt of a release: what it cost, under which policy and data, and where the ledger wrote it down."""

import json
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import MalformedEvent
from sfumato.exact import rational

TIMING = "none"
"""The timing mode: how long an answer takes is not padded."""

_FIELDS = ("bits", "delta", "epsilon", "head", "id", "policy", "sequence", "timing", "version")
_SINCE = ("gamma", "needed", "source")
"""What receipts have said since they name their source; older ones read back without."""
_UNITS = ("units",)
"""And since they name whom each table protects."""
_ANSWERS = ("rests_on", "refines", "promise", "cohorts")
"""And since answers are computed from earlier ones, and budgets may renew or belong to cohorts."""


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
    source: str = ""
    """Where the random bits came from; older receipts do not say it."""
    gamma: Fraction = Fraction(0)
    """How far each bit of that source may be from fair, as it was declared."""
    needed: int = 0
    """How many bits of entropy noise of this shape has: no sampler reads fewer on average."""
    units: str = ""
    """Whom each private table that it read protects: "visits: each patient_id; votes: each row"."""
    rests_on: tuple[str, ...] = ()
    """The receipts of earlier answers whose noisy numbers it uses."""
    refines: str = ""
    """The receipt of the answer that it makes more exact, where it paid the difference."""
    promise: str = ""
    """What holds for people where the budget renews and nothing bounds all windows together; empty elsewhere."""
    cohorts: tuple[str, ...] = ()
    """The cohorts that paid, where people have budgets by cohort."""

    @property
    def caution(self) -> str:
        """What has to be known about the source before this answer is used with others."""
        if not self.gamma:
            return ""
        return (
            f"The bits of {self.source} may be biased by {self.gamma}. This answer alone is private; together "
            "with any other answer from the same source it costs more than the sum of both."
        )


def receipt_to_json(receipt: Receipt) -> str:
    """Return the one text of a receipt.

    >>> receipt_to_json(Receipt("r1", "p", "1", PrivacyLoss("1/2")))[:60]
    '{"bits":0,"delta":"0","epsilon":"1/2","head":null,"id":"r1",'
    """
    data: dict[str, object] = {
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
    if receipt.source or receipt.gamma or receipt.needed:
        data |= {"source": receipt.source, "gamma": str(receipt.gamma), "needed": receipt.needed}
    if receipt.units:
        data["units"] = receipt.units
    if receipt.rests_on:
        data["rests_on"] = list(receipt.rests_on)
    if receipt.refines:
        data["refines"] = receipt.refines
    if receipt.promise:
        data["promise"] = receipt.promise
    if receipt.cohorts:
        data["cohorts"] = list(receipt.cohorts)
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
        } if _is_whole(data) and not isinstance(sequence, bool) and not isinstance(bits, bool):
            loss = PrivacyLoss(rational(epsilon, "epsilon"), rational(delta, "delta"))
            source, gamma, needed = (
                data.get("source", ""),
                rational(data.get("gamma", "0"), "gamma"),
                data.get("needed", 0),
            )
            units, rests_on, refines = data.get("units", ""), tuple(data.get("rests_on", ())), data.get("refines", "")
            given = (name, policy, version, loss, sequence, head, bits, timing, source, gamma, needed, units)
            receipt = Receipt(*given, rests_on, refines, data.get("promise", ""), tuple(data.get("cohorts", ())))
            if receipt_to_json(receipt) == text:
                return receipt
    raise _malformed()


def _is_whole(data: dict[str, object]) -> bool:
    fields = tuple(sorted(set(data) - set(_UNITS) - set(_ANSWERS)))
    listed = [data.get("rests_on", []), data.get("cohorts", [])]
    if not all(isinstance(data.get(name, ""), str) for name in ("units", "refines", "promise")):
        return False
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in listed):
        return False
    if fields == _FIELDS:
        return True
    known = fields == tuple(sorted(_FIELDS + _SINCE))
    return known and isinstance(data["source"], str) and isinstance(data["gamma"], str) and type(data["needed"]) is int


def _malformed() -> MalformedEvent:
    return MalformedEvent(
        "A stored receipt does not read back.",
        "It is not the text that was written when the answer was released.",
        "Restore the ledger from a copy.",
    )
