"""State shared by the accounts of an open dataset: its snapshot, its ledger, and the snapshot's truncation losses."""

import json
import os
from dataclasses import replace
from threading import Lock, RLock
from weakref import WeakSet

from sfumato.accounting.event import to_json
from sfumato.diagnostics import log_event
from sfumato.engines.cohort_set import cohorts_of
from sfumato.engines.engine import Engine, SnapshotWatch
from sfumato.errors import Refusal
from sfumato.ledger.charge import Charge
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.recorded_policy import DATASET
from sfumato.planning.bounding.truncation import TruncationBounds, plan_truncation_release
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.randomness.source import Source
from sfumato.release.bounding.truncation import has_published, release_truncation, truncation_bounds_of
from sfumato.release.noisy import noisy_from_json, noisy_to_json

TRUNCATION_HISTORY_TEXT = "What caps and bounds cut off (budget.truncation)"
"""The text that `history` shows for the measurement of truncation losses. It is stored: it never changes."""


class SharedDataset:
    """State shared by the accounts of one open dataset. The last handle that is closed lets go of it."""

    def __init__(self, policy: Policy, engine: Engine, ledger: Ledger, watch: SnapshotWatch | None = None) -> None:
        self.policy = policy
        self.engine = engine
        self.ledger = ledger
        self._watch = watch
        self._handles = 0
        self._truncation_plan = plan_truncation_release(policy)
        earlier = plan_truncation_release(policy, counts_people=False)
        self._truncation_plans = [plan for plan in (self._truncation_plan, earlier) if plan is not None]
        self._truncation_bounds: dict[str, TruncationBounds] = {}
        """The published bounds, by the id of the snapshot."""
        self._renew_locks()
        _OPEN.add(self)

    def _renew_locks(self) -> None:
        """Make locks that no thread holds: after a fork, the threads that held them do not exist."""
        self._lock = Lock()
        self._changing = RLock()

    def current(self) -> Engine:
        """Return the current snapshot: another process may have taken one since the last question."""
        if self._watch is not None and self._changing.acquire(
            blocking=False
        ):  # who comes meanwhile asks the one before
            try:
                newer = self._watch.open_newer(self.engine.version, self.ledger.identity)
                if newer is not None:
                    self.replace(newer)
            finally:
                self._changing.release()
        return self.engine

    def known(self) -> str | None:
        """Return the id of the snapshot that answers, unless another one may have taken its place."""
        return None if self._watch is not None and self._watch.may_have_changed() else self.engine.version

    def acquire_handle(self) -> None:
        """Count one more handle."""
        with self._lock:
            self._handles += 1

    def replace(self, engine: Engine) -> None:
        """Answer from another snapshot from now on; questions that are under way keep theirs."""
        with self._changing, self._lock:
            before, self.engine = self.engine, engine
        before.retire()

    def measure_truncation(self, engine: Engine, payer: Payer) -> None:
        """Charge and publish the truncation losses of a snapshot: once for all accounts, at the dataset's expense.

        Those who take a snapshot or open one call this before they return a handle; no question does. The charge is
        durable before anything is read, and what is published is stored with it. Another call takes up an attempt that
        ended early, at no further cost. A refusal, for example for too small a budget, leaves the losses unknown.
        Proof: proofs/truncation.md
        """
        plan = self._truncation_plan
        if plan is None or plan.event is None or not engine.stores_truncation_losses:
            return
        if self.truncation_bounds(engine.version) is not None:
            return
        try:
            _publish_truncation(engine, plan, self.policy, payer)
        except Refusal as refusal:
            log_event("truncation_unknown", dataset=self.policy.name, version=engine.version, code=refusal.code)

    def truncation_bounds(self, version: str) -> TruncationBounds | None:
        """Return what was published of the truncation losses of a snapshot under this policy; None where nothing was.

        It reads at most one entry of the ledger, whichever snapshot answers now and whichever process published it.
        Losses that an earlier version published are paid for: the plan that measured them reads them.
        """
        known = self._truncation_bounds.get(version)
        if self._truncation_plan is None or known is not None:
            return known
        stored = self.ledger.stored(DATASET, _truncation_fingerprint(self._truncation_plan), version)
        if stored is None:
            return None
        noisy = noisy_from_json(json.loads(stored)["noisy"])
        plan = next((plan for plan in self._truncation_plans if has_published(plan, noisy)), self._truncation_plan)
        self._truncation_bounds[version] = truncation_bounds_of(self.policy, plan, noisy)
        return self._truncation_bounds[version]

    def release_handle(self) -> None:
        """Count one handle less."""
        with self._lock:
            self._handles -= 1
            last = self._handles == 0
        if last:
            self.engine.close()
            self.ledger.close()


def _publish_truncation(engine: Engine, plan: Plan, policy: Policy, payer: Payer) -> None:
    """Charge the dataset's own account, read and publish; others who do so at the same time get the same."""
    if plan.event is None:
        raise AssertionError("what is free is not charged")
    job = engine.prepare(plan)

    def release(_charge: Charge, source: Source) -> str:
        return json.dumps({"noisy": noisy_to_json(release_truncation(policy, plan, engine.run(job), source))})

    charged = ChargedRelease(
        _truncation_fingerprint(plan),
        TRUNCATION_HISTORY_TEXT,
        plan.event,
        plan.loss,
        engine.version,
        cohorts=None if (known := cohorts_of(engine)) is None else PayingCohorts(known.kept, known.names),
    )
    replace(payer, account=DATASET).charge_and_publish(charged, release)


def _truncation_fingerprint(plan: Plan) -> str:
    return json.dumps(["truncation", None if plan.event is None else to_json(plan.event)])


_OPEN: WeakSet[SharedDataset] = WeakSet()


def _after_fork() -> None:
    for dataset in list(_OPEN):
        dataset._renew_locks()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
