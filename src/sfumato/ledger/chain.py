"""A row of the ledger, its canonical bytes, and the SHA-256 chain that binds each row to all rows before it.

The bytes are every field in its order, each with its length in front, so that two different rows never have the same;
the head of a row is the hash of the head before and of these bytes. A new meaning is a new form with another genesis.
"""

from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

FORM = "sfumato ledger, form 1"
GENESIS = sha256(FORM.encode()).hexdigest()
"""The head before the first row."""
STATE_EVERY = 1000
"""A row at a multiple of this holds the sums so far, so that opening does not replay everything."""


class RowKind(StrEnum):
    """The kind of a row."""

    POLICY = "policy"
    """The owner's budget and what it protects, as of here; the first row is one."""
    CHARGED = "charged"
    """A release that is about to happen: durable before any data is read."""
    SETTLED = "settled"
    """The release of the charge at `about`, in `content`."""
    FAILED = "failed"
    """The charge at `about` never became a release. It stays charged."""
    REACHED = "reached"
    """How far the stream that the charge at `about` pays for has come, in `content`: its time never falls."""
    STATE = "state"
    """The sums so far, in `content`: derived from the rows before, and checked against them."""
    CLOCK = "clock"
    """The owner says that the clock of the machine is right although it is behind the row before."""
    RESTORED = "restored"
    """The rows up to `about` came from a backup, and later ones may be lost: nothing is answered after this row."""
    ACCEPTED = "accepted"
    """The owner accepts, in the words of `content`, what the restore at `about` may have lost."""
    REQUESTED = "requested"
    """An analyst asks the owner for one measurement beyond their cap; the reason and the price are in `content`."""
    REPLIED = "replied"
    """A note of the owner or the analyst, in `content`, on the request at `about`."""
    APPROVED = "approved"
    """The owner grants the request at `about`: one charge for its measurement, named by that charge's `about`."""
    DECLINED = "declined"
    """The owner declines the request at `about`, also after it was approved, unless it was used."""
    WITHDRAWN = "withdrawn"
    """The analyst takes the request at `about` back."""


class Row(NamedTuple):
    """One line of the ledger. A field that its kind does not use is empty, or 0."""

    sequence: int
    kind: str
    time: int
    """Microseconds since 1970, never less than in the row before, unless this row is of the kind `clock`."""
    account: str = ""
    question: str = ""
    sql: str = ""
    event: str = ""
    """Canonical text; see accounting/event.py."""
    loss: str = ""
    """The quoted epsilon and delta, as two exact fractions."""
    policy: str = ""
    version: str = ""
    receipt: str = ""
    key: str = ""
    """The idempotency key; empty where none was given."""
    same: str = ""
    """The hash of account, question and version: equal for the same question."""
    about: int = 0
    content: str = ""
    head: str = ""


def length_prefixed(*fields: str | int) -> bytes:
    """Return the fields as bytes that can be read in one way only.

    >>> length_prefixed("ab", "", 7)
    b'2:ab0:1:7'
    """
    parts = [str(field).encode() for field in fields]
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)


def with_chain_hash(previous: str, row: Row) -> Row:
    """Return the row with its head."""
    return row._replace(head=sha256(length_prefixed(previous, *row[:-1])).hexdigest())


@lru_cache(maxsize=64)
def repeat_key(account: str, question: str, version: str) -> str:
    """Return what is equal for two requests iff they are the same question, whatever else the policy says by now."""
    return sha256(length_prefixed(account, question, version)).hexdigest()


def same_question_before(account: str, question: str, policy: str, version: str) -> str:
    """Return what entries of version 0.1.0 hold instead: there any change of the policy made another question."""
    return sha256(length_prefixed(account, question, policy, version)).hexdigest()
