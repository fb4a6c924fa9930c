"""One charge while it is being answered: it ends with one stored outcome, or is left for a retry to take up."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sfumato.errors import BadParameter, Refusal
from sfumato.ledger.chain import Row
from sfumato.ledger.outcome_time import wait_for_outcome_time
from sfumato.randomness.source import Metered, Source

FAILED_AFTER_NOISE = '{"failed":"after noise was drawn"}'
"""The outcome of an attempt that ended between the first random bit and its release. It is stored like a release."""
_MAX_KEY_CHARS = 200


@dataclass(frozen=True, slots=True)
class Ending:
    """How the ledger of a charge ends it."""

    store: Callable[[Row, str], None]
    """Make an outcome durable, now or before the next charge; no other outcome can take its place."""
    leave: Callable[[Row], None]
    """Leave the charge without an outcome: the next who asks the same takes it up."""


class Charge:
    """One charge that is durable, or the stored release of the same question."""

    __slots__ = ("_ending", "_open", "_row", "_sources", "stored_release")

    def __init__(self, row: Row, stored_release: str | None, ending: Ending) -> None:
        self._row = row
        self._ending = ending
        self._open = stored_release is None
        self._sources: list[Metered] = []
        self.stored_release = stored_release
        """The release of the same question, where it was answered before: then nothing was charged."""

    @property
    def sequence(self) -> int:
        """The place of the charge in the ledger."""
        return self._row.sequence

    @property
    def head(self) -> str:
        """The hash of the charge and of everything before it."""
        return self._row.head

    @property
    def receipt(self) -> str:
        """The receipt id under which the release is found: that of the attempt which charged."""
        return self._row.receipt

    def noise_from(self, source: Source) -> Source:
        """Return the source that all noise of this release is drawn from.

        Once a bit was read from it, a failure may depend on the noise. It is then stored as the outcome of the charge,
        so that no retry draws a second noise. Proof: proofs/ledger.md
        """
        metered = Metered(source)
        self._sources.append(metered)
        return metered

    def settle(self, release: str) -> None:
        """Store the release durably. Only afterwards may it leave."""
        if not self._open:
            raise BadParameter(
                "This charge is settled.", "One charge pays for one release.", "Charge again for another release."
            )
        require_storable(release)
        self._open = False
        self._store(release)

    def close(self) -> None:
        """End the attempt unless it was settled. The charge stays, and asking again takes it up."""
        if not self._open:
            return
        self._open = False
        if any(source.bits for source in self._sources):
            with suppress(Refusal):  # held in memory, and stored before the next charge
                self._store(FAILED_AFTER_NOISE)
            return
        try:
            wait_for_outcome_time()
        finally:
            self._ending.leave(self._row)

    def _store(self, outcome: str) -> None:
        try:
            wait_for_outcome_time()
        finally:
            self._ending.store(self._row, outcome)


def require_storable(text: str) -> None:
    """Refuse text that not every store can hold exactly."""
    try:
        text.encode()
        storable = "\0" not in text
    except UnicodeEncodeError:
        storable = False
    if not storable:
        raise BadParameter(
            "The text holds a character that cannot be stored.",
            "NUL and lone surrogates cannot be stored as text.",
            "Leave them out.",
        )


def require_key(key: object) -> None:
    """Refuse a key that is no short text."""
    if key is not None and not (isinstance(key, str) and len(key) <= _MAX_KEY_CHARS):
        raise BadParameter(
            "The key is not a text, or too long.",
            f"It names one attempt, in at most {_MAX_KEY_CHARS} characters.",
            "Give a random text, such as a UUID.",
        )
