"""A request to a ledger: one charge, described completely before any data is read."""

from dataclasses import dataclass

from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.cohorts import PayingCohorts


@dataclass(frozen=True, slots=True)
class Request:
    """One release that is about to happen."""

    account: str
    """The analyst, folded; the empty text is the dataset's own account."""
    fingerprint: str
    """What is measured, and the policy digest of its tables: with the version it identifies the charge."""
    sql: str
    """The question as `history` shows it to people: the text that was asked."""
    event: Event
    loss: PrivacyLoss
    policy: str
    """The policy's hash."""
    version: str
    """The data's version."""
    receipt: str
    """A random id."""
    shared: bool = False
    """Whether an answer that another account has paid for is given, too: the policy says so."""
    cohorts: PayingCohorts | None = None
    """The cohorts that pay; None: all people do, also those who come later."""
    older: tuple[str, ...] = ()
    """The fingerprints under which older versions may have charged the same measurements."""
    only_granted: bool = False
    """Whether a grant has to pay: the question names what the account may not use otherwise."""
