"""The one path of a charge: describe the release, charge it, draw its noise, store it, and only then return it."""

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.diagnostics import log_event
from sfumato.ledger.charge import Charge
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.request import Request
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class ChargedRelease:
    """A release that is about to be charged: everything that is known of it before any data is read."""

    fingerprint: str
    sql: str
    """The text that `history` shows for it."""
    event: Event
    loss: PrivacyLoss
    version: str
    """The id of the snapshot that is read."""
    shared: bool = False
    """Whether the stored release of another account is returned as well."""
    receipt: str = ""
    """The id of the receipt; a random one is drawn where this is empty."""
    cohorts: PayingCohorts | None = None
    """The cohorts that pay; None: all people do, also those who come later."""
    older: tuple[str, ...] = ()
    """The fingerprints under which older versions may have stored the same release."""
    only_granted: bool = False
    """Whether a one-time grant has to pay for it."""


@dataclass(frozen=True, slots=True)
class Payer:
    """An account of a ledger, with the policy under which it pays and the source of its noise."""

    ledger: Ledger
    account: str
    policy: str
    """The hash of the policy."""
    source: Source

    def charge_and_publish(
        self, charged: ChargedRelease, release: Callable[[Charge, Source], str], key: str | None = None
    ) -> str:
        """Charge, run `release` behind the charge, store the text that it returns, and return that text.

        Where the same release is stored already, nothing is charged, `release` is not run, and the stored text is
        returned. `release` is given the durable charge and the source that all noise of this charge is drawn from; it
        is the only code that reads private data. Proof: proofs/ledger.md
        """
        request = Request(
            account=self.account,
            fingerprint=charged.fingerprint,
            sql=charged.sql,
            event=charged.event,
            loss=charged.loss,
            policy=self.policy,
            version=charged.version,
            receipt=charged.receipt or fresh_id(self.source),
            shared=charged.shared,
            cohorts=charged.cohorts,
            older=charged.older,
            only_granted=charged.only_granted,
        )
        with self.ledger.charge(request, key) as charge:  # durable before data is read, or Refusal
            if charge.stored_release is not None:
                log_event("repeated", account=self.account, receipt=charge.receipt)
                return charge.stored_release
            log_event("charged", account=self.account, receipt=charge.receipt, loss=str(charged.loss))
            stored = release(charge, charge.noise_from(self.source))
            charge.settle(stored)  # durable before anything of it is shown
            log_event("stored", account=self.account, receipt=charge.receipt)
        return stored
