"""Charge a stream when it is created, and record its progress in the ledger after each step."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

from sfumato.accounting import pure, zcdp
from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, LedgerDamaged, LedgerUnavailable, Refusal, StreamUnavailable
from sfumato.exact import decimal_rational
from sfumato.ledger.charge import Charge
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source
from sfumato.secure_files import write_atomically
from sfumato.streams.stream_file import stream_damaged, stream_unavailable

_ATTEMPT_SUFFIX = ".attempt"
_QUOTE_DELTA_DIVISOR = 1000
"""A price is quoted at the budget's delta divided by this number, as for queries."""


@contextmanager
def stream_attempt(path: Path, identity: Sequence[str]) -> Iterator[str]:
    """Yield the random name of the stream that is created at a path; a retry gets the same name.

    The name makes the stream a question of its own. It is durable beside the path before the charge, so that after a
    crash or a full disk the retry takes up the charge. A refusal before the charge, or success, removes it.
    """
    attempt_file = path.with_name(path.name + _ATTEMPT_SUFFIX)
    digest = sha256(json.dumps(list(identity)).encode()).hexdigest()
    try:
        name = _known_attempt(attempt_file, digest) or fresh_id(system_source())
        write_atomically(attempt_file, f"{digest} {name}\n".encode())
    except OSError:
        name = ""
    if not name:
        raise stream_unavailable(
            "The folder cannot be written to.", "Nothing was charged. Check disk and rights, and retry."
        )
    try:
        yield name
    except (LedgerDamaged, LedgerUnavailable, StreamUnavailable):
        raise
    except Refusal:
        attempt_file.unlink(missing_ok=True)
        raise
    attempt_file.unlink(missing_ok=True)


def forget_attempt(path: Path) -> None:
    """Remove the attempt file that a crash left beside a stream: the stream's file exists and knows its charge."""
    with suppress(OSError):
        path.with_name(path.name + _ATTEMPT_SUFFIX).unlink(missing_ok=True)


def _known_attempt(attempt_file: Path, digest: str) -> str | None:
    """Return the name that an earlier attempt at the same stream was given."""
    if not attempt_file.exists():
        return None
    known, _, name = attempt_file.read_text(encoding="ascii", errors="replace").strip().partition(" ")
    return name if known == digest and name.isalnum() else None


def charge_stream(
    ledger: Ledger, account: str, event: Event, release: Callable[[Charge], str], *, name: str, words: str
) -> None:
    """Charge a stream when it is created: its random name makes it a question of its own.

    The event covers all its steps. Their noise is drawn after the charge was settled. Proof: proofs/ledger.md, §4d
    """
    policies: list[str] = []
    ledger.record(lambda book: policies.append(book.state.policy))
    loss = quoted_loss(event, ledger.budget(account).total.delta)
    charged = ChargedRelease(f"stream {name}", words, event, loss, version=name, receipt=name)
    payer = Payer(ledger, account, policies[0], system_source())
    payer.charge_and_publish(charged, lambda charge, _source: release(charge))


def quoted_loss(event: Event, delta: Fraction) -> PrivacyLoss:
    """Return the privacy loss of an event for display; the ledger charges the event itself.

    >>> from sfumato.accounting.event import Neighbours, Pure
    >>> print(quoted_loss(Pure(Fraction(1, 2), Neighbours.ADD_REMOVE), Fraction(1, 10**6)))
    ε = 0.5, δ = 0
    """
    try:
        return PrivacyLoss(decimal_rational(pure.epsilon(event), "epsilon"))
    except (Refusal, OverflowError):
        pass
    if not delta:
        raise BadParameter(
            "Gaussian noise needs a delta, and this budget has none.",
            "With delta = 0 only Laplace noise is private at all.",
            "Take TreeSums or PeriodTables, or ask the owner for `budget.delta`.",
        )
    part = delta / _QUOTE_DELTA_DIVISOR
    return PrivacyLoss(decimal_rational(zcdp.epsilon(event, part), "epsilon"), part)


def require_known(ledger: Ledger | None, charge: int | None, time: int, digests: Sequence[str]) -> None:
    """Refuse a stream whose progress differs from the ledger's; `digests` end before and at its last step.

    One step more than the ledger knows is a crash between the two, and is noted now.
    """
    if charge is None and ledger is None:
        return
    if charge is None or ledger is None:
        raise BadParameter(
            "This stream was created with a ledger." if ledger is None else "This stream was created without a ledger.",
            "Only the ledger that paid for a stream knows how far it has come.",
            "Open it with that ledger." if ledger is None else "Open it without one.",
        )
    reached = ledger.reached(charge)
    if reached is None:
        raise stream_damaged("This ledger knows of no such stream.")
    known = digests[-1] if reached.time == time else digests[0] if reached.time == time - 1 else None
    if known != reached.digest:
        raise stream_damaged("The ledger knows of other steps: this file is an old copy, or one of two.")
    ledger.record_progress(charge, time, digests[-1])
