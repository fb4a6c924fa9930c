"""Reading certificate and policies again while a server runs: on SIGHUP, and when a file has changed.

Open connections stay. A certificate counts for new handshakes. A policy counts for the next request, if the ledger has
recorded it or what changed is not recorded there: names of owners, prices, the identity provider. A server records no
policy itself: a larger budget or another unit waits for the owner's `sfumato check POLICY`. What cannot be read changes
nothing, is logged, and /ready says so.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sfumato.database import Database
from sfumato.diagnostics import log_event, record_engine_failure
from sfumato.errors import Refusal
from sfumato.ledger.opening import policy_in_force
from sfumato.opening import open_recorded
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.server.datasets import ServedDataset, identity_provider
from sfumato.server.tls import CertificateFiles

WATCH_SECONDS = 2.0
"""Seconds between two looks at the files."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Reload:
    """What a server reads again. It belongs to one event loop."""

    datasets: Sequence[ServedDataset]
    tls: CertificateFiles | None
    say: Say
    use_names: Callable[[], None] = lambda: None
    """Called after another certificate came into force: it may be for other hosts."""
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by SIGHUP."""
    _told: dict[str, str] = field(default_factory=dict)
    """What was said last of each file, so that it is said once."""

    async def run(self) -> None:
        """Check the files every two seconds, and at once on request."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self.wanted.wait()
            always = self.wanted.is_set()
            self.wanted.clear()
            try:
                await self.read_changes(always)
            except Exception as failure:  # the server goes on, and looks again
                record_engine_failure(failure)

    async def read_changes(self, always: bool) -> None:
        """Take over what has changed; `always` reads the certificate even where its files seem to be the same."""
        if self.tls is not None and (always or self.tls.have_changed()):
            self._read_certificate(self.tls)
        for dataset in self.datasets:
            try:
                await self._read_policy(dataset)
            except Refusal as refusal:  # the policy before it stays in force
                self._tell(dataset.name, f"The policy of {dataset.name} was not taken over: {refusal}", refusal.code)

    def _read_certificate(self, tls: CertificateFiles) -> None:
        refusal = tls.read_again()
        if refusal is not None:
            self._tell("certificate", f"The certificate was not taken over: {refusal}", refusal.code)
            return
        self._told.pop("certificate", None)
        self.use_names()
        self.say("The certificate was read again.")
        log_event("certificate_read")

    async def _read_policy(self, dataset: ServedDataset) -> None:
        watch, gate, name = dataset.watch, dataset.gate, dataset.name
        if gate.stopping:
            return
        if not await asyncio.to_thread(watch.is_readable):
            words = f"The policy file of {name} cannot be read. The policy before it stays in force."
            self._tell(name, words, "bad_policy")
            return
        if keys := watch.needs_restart():
            self._tell(
                name, f"In the policy of {name}, {', '.join(keys)} changed. This counts after a restart.", "restart"
            )
        found = watch.difference()
        if found is None or gate.owner.rehearsal:
            if not keys:
                self._told.pop(name, None)
            return
        if await asyncio.to_thread(policy_in_force, gate.owner.payer.ledger) != policy_hash(found):
            words = (
                f"The policy of {name} has changed. It is not in force, and no question is answered, until the owner "
                "records it: sfumato check POLICY"
            )
            self._tell(name, words, "policy_changed")
            return
        self._take_over(dataset, found, await asyncio.to_thread(open_recorded, found))

    def _take_over(self, dataset: ServedDataset, policy: Policy, database: Database) -> None:
        gate = dataset.gate
        if gate.stopping:
            database.close()
            return
        before = gate.grants.policy.identity
        dataset.watch.take_over(policy)
        gate.grants.use_policy(policy)
        gate.take_over(database)
        if policy.identity != before:
            gate.identity = identity_provider(policy, gate.grants)
        self._told.pop(dataset.name, None)
        self.say(f"The policy of {dataset.name} was read again and is in force.")
        log_event("policy_read", dataset=dataset.name, policy=policy_hash(policy))

    def _tell(self, subject: str, words: str, code: str) -> None:
        if self._told.get(subject) != words:
            self._told[subject] = words
            self.say(words)
            log_event("not_taken_over", subject=subject, code=code)
